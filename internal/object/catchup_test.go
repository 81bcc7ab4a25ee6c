package object_test

import (
	"maps"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Each kind of catch-up has a name, and is known to transfer a state or not to.
func TestKindsOfCatchUp(t *testing.T) {
	transfers := map[string]bool{}
	for kind := range object.CatchUpKinds {
		transfers[kind.String()] = kind.TransfersState()
	}
	if want := map[string]bool{"none": false, "replay": false, "reset": true, "delta": true}; !maps.Equal(transfers, want) {
		t.Errorf("got %v, want %v", transfers, want)
	}
}
