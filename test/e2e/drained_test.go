package e2e

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/test/check"
)

// drained returns an error unless err is the documented status of a stream that a
// stopping server ends.
func drained(err error) error {
	if code := status.Code(err); code != codes.Unavailable {
		return fmt.Errorf("got code %v from a drained stream, want UNAVAILABLE: %w", code, err)
	}
	if reason := reasonOf(err); reason != check.StatusDraining {
		return fmt.Errorf("got reason %q from a drained stream: %w", reason, err)
	}
	return nil
}
