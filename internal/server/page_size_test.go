package server_test

import (
	"fmt"
	"math"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Page sizes above the maximum are lowered to it, as AIP-158 asks.
func TestLargePageSizesAreLowered(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	const most = 10_000
	for n := 0; n <= most; n += maxOperations {
		var operations []*fanoutv1.Operation
		for i := n; i < min(n+maxOperations, most+1); i++ {
			operations = append(operations, putting(putText(fmt.Sprint(i), "")))
		}
		if _, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, PageSize: math.MaxInt32})
	if err != nil || len(list.GetObjects()) != most || list.GetRemainingCount() != 1 {
		t.Errorf("got %d objects and %d remaining, %v; want %d and 1", len(list.GetObjects()), list.GetRemainingCount(), err, most)
	}
	if _, err := in.admin().ListWatchers(ctx, &fanoutv1.ListWatchersRequest{PageSize: 1001}); err != nil {
		t.Errorf("ListWatchers: %v", err)
	}
	again, err := in.admin().Reencrypt(ctx, &fanoutv1.ReencryptRequest{Resource: config, PageSize: 1001})
	if err != nil || again.GetLookedAt() != 1000 {
		t.Errorf("Reencrypt looked at %d objects, %v; want 1000", again.GetLookedAt(), err)
	}
}
