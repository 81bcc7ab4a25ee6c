package subscribe

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// A stream whose client takes longer than the lease for a part loses its slot. One whose client
// reads keeps the slot, however many parts it sends, and gives it back when gRPC has written them.
func TestASlotIsLentForEachPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := quota.New(quota.Limits{Snapshots: 2}, slog.New(slog.DiscardHandler))
		s := &slot{limits: limits, request: t.Context()}
		used := func(want int64) {
			t.Helper()
			synctest.Wait()
			if n, _, _ := limits.SnapshotSlots.Usage(); n != want || s.isHeld() != (want == 1) {
				t.Errorf("got %d slots (held: %v), want %d", n, s.isHeld(), want)
			}
		}
		reserve := func() {
			t.Helper()
			if err := s.reserve(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			used(1)
		}
		reserve()
		for range 5 {
			s.beginPart()
			time.Sleep(limits.Lease / 2)
			s.endPart()
		}
		used(1)
		s.beginPart()
		time.Sleep(2 * limits.Lease)
		used(0)

		reserve()
		var written func()
		s.release(func(then func()) { written = then })
		if n, _, _ := limits.SnapshotSlots.Usage(); n != 1 || s.isHeld() {
			t.Errorf("got %d slots (held: %v) before gRPC has written the parts, want 1 that is not held", n, s.isHeld())
		}
		written()
		used(0)

		reserve()
		s.release(func(func()) {}) // gRPC never writes them
		time.Sleep(2 * limits.Lease)
		used(0)

		reserve()
		s.beginPart()
		s.close()
		used(0)
		if err := s.reserve(t.Context(), true); err == nil {
			t.Error("a stream that has ended got a slot")
		}
		used(0)
	})
}

// The values of the request name the client, and the other context ends the wait.
func TestTheWaitForASlotBelongsToTheRequest(t *testing.T) {
	type key struct{}
	ctx, cancel := context.WithCancel(t.Context())
	c := requestContext{ctx, context.WithValue(t.Context(), key{}, "client")}
	cancel()
	if c.Value(key{}) != "client" || c.Err() == nil {
		t.Errorf("got %v, %v", c.Value(key{}), c.Err())
	}
}
