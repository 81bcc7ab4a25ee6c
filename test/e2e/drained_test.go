package e2e

import (
	"fmt"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/test/check"
)

// drained returns an error if the given one does not say, in the documented way,
// that the server ends a stream because it is stopping.
func drained(err error) error {
	if code := status.Code(err); code != codes.Unavailable {
		return fmt.Errorf("a drained stream ends with %v: %w", code, err)
	}
	if reason := reasonOf(err); reason != check.StatusDraining {
		return fmt.Errorf("a drained stream ends with reason %q: %w", reason, err)
	}
	return nil
}
