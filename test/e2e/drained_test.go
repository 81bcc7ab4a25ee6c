package e2e

import (
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// drained returns an error if the given one does not say, in the documented way,
// that the server ends a stream because it is stopping.
func drained(err error) error {
	s := status.Convert(err)
	if s.Code() != codes.Unavailable {
		return fmt.Errorf("a drained stream ends with %v: %w", s.Code(), err)
	}
	for _, detail := range s.Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok {
			if info.GetDomain() == "fanoutd" && info.GetReason() == "DRAINING" {
				return nil
			}
			return fmt.Errorf("a drained stream ends with reason %q of domain %q: %w", info.GetReason(), info.GetDomain(), err)
		}
	}
	return fmt.Errorf("a drained stream ends without a reason: %w", err)
}
