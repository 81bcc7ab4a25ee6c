package quota

import (
	"slices"
	"testing"

	"github.com/fanoutd/fanoutd/test/constants"
)

// The limiter counts refusals only for the limits of the list.
func TestTheListOfConnectionLimitsIsComplete(t *testing.T) {
	if all := constants.Of[ConnectionLimit](t, "connection_refusals.go", "ConnectionLimit"); !slices.Equal(connectionLimits, all) {
		t.Errorf("got %q, want %q", connectionLimits, all)
	}
}
