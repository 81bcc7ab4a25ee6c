package robustness

import (
	"fmt"
	"strconv"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// refused returns the revision at which fanoutd has found out what an error says,
// and true, if the error has this reason. Such an error is an answer. The revision
// is 0 if the reason has none.
func refused(err error, reason string) (revision int64, ok bool) {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetReason() == reason {
			revision, _ = strconv.ParseInt(info.GetMetadata()["revision"], 10, 64)
			return revision, true
		}
	}
	return 0, false
}

// unknown reports whether an error leaves open what has happened. A server was
// killed, or stopped, or could not reach etcd.
func unknown(err error) bool {
	code := status.Code(err)
	return code == codes.Unavailable || code == codes.DeadlineExceeded
}

// unexpected says that nothing in the run explains the error.
func unexpected(what string, err error) error { return fmt.Errorf("%s: unexpected: %w", what, err) }
