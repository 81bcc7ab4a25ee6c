package client

import (
	"context"
	"math"
	"testing"

	"google.golang.org/grpc/balancer"
)

// On platforms whose int has 32 bits, the upper half of the counter is negative as an
// int. Run with GOARCH=386 to see what this test finds.
func TestPickWorksWhenTheCounterPassesInt32(t *testing.T) {
	t.Parallel()
	p := &picker{servers: []readyServer{{address: "a"}, {address: "b"}, {address: "c"}}}
	for _, start := range []uint32{math.MaxInt32 - 2, math.MaxUint32 - 2} {
		p.picks.Store(start)
		picked := map[string]int{}
		for range 6 {
			choice := &serverChoice{}
			if _, err := p.Pick(balancer.PickInfo{Ctx: withServerChoice(context.Background(), choice)}); err != nil {
				t.Fatal(err)
			}
			picked[choice.server()]++
		}
		if len(picked) != 3 {
			t.Errorf("picked %v from %d on, want all three servers", picked, start)
		}
	}
}
