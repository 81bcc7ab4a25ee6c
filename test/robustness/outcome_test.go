package robustness

import (
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refused reports whether an error has this reason, and returns the revision in the
// error, or 0 if the reason has none. Such an error is an answer.
func refused(err error, reason string) (revision int64, ok bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == reason {
			revision, _ = strconv.ParseInt(info.GetMetadata()["revision"], 10, 64)
			return revision, true
		}
	}
	return 0, false
}

// unknown reports whether an error leaves the outcome open, because a server was killed,
// stopped, or could not reach etcd.
func unknown(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// unexpected wraps an error that nothing in the test explains.
func unexpected(what string, err error) error { return fmt.Errorf("%s: unexpected: %w", what, err) }
