package server

import (
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/server/registry"
	"github.com/fanoutd/fanoutd/internal/server/request"
)

// Requests with the same question share one count in a tick, and its message. A request that comes
// later shares it, too. What nobody asks for any more is forgotten.
func TestEqualQuestionsAreCountedOnce(t *testing.T) {
	now, counted := time.Unix(1000, 0), map[object.Revision]int{}
	a := newAppliedCounts(func(q request.Applied) *registry.Applied {
		counted[q.Revision]++
		return &registry.Applied{Watches: int64(counted[q.Revision])}
	})
	a.now = func() time.Time { return now }
	cart, err := selector.ParseLabels("app=cart,zone=eu")
	if err != nil {
		t.Fatal(err)
	}
	same, err := selector.ParseLabels("zone=eu, app=cart")
	if err != nil {
		t.Fatal(err)
	}
	var leave []func()
	use := func(q request.Applied) *appliedCount {
		c, done := a.use(q)
		leave = append(leave, done)
		return c
	}
	want := func(revision object.Revision, n int) {
		t.Helper()
		if got := counted[revision]; got != n {
			t.Errorf("revision %d: got %d counts, want %d", revision, got, n)
		}
	}
	for i := range 100 {
		c := use(request.Applied{Resource: "config", Revision: 1, Subscribers: []selector.Selector{cart, same}[i%2]})
		if _, due := c.current(); due != now.Add(appliedTick) {
			t.Errorf("the next count is due at %v, want %v", due, now.Add(appliedTick))
		}
	}
	want(1, 1)
	for _, q := range []request.Applied{
		{Resource: "config", Revision: 2},
		{Resource: "config", Revision: 2, RequireAll: true},
		{Resource: "config", Revision: 2, Instance: "i"},
		{Resource: "config", Revision: 2, Scope: object.ExactKey("a")},
		{Resource: "config", Revision: 2, Subscribers: cart},
		{Resource: "other", Revision: 2},
	} {
		use(q).current()
	}
	want(2, 6)

	one, other := use(request.Applied{Resource: "config", Revision: 3}), use(request.Applied{Resource: "config", Revision: 3})
	first, digest, err := one.encoded()
	if err != nil {
		t.Fatal(err)
	}
	second, again, err := other.encoded()
	if err != nil || &first[0] != &second[0] || digest != again {
		t.Errorf("got %x and %x, %v, want the same message", first, second, err)
	}
	if one.counted != nil {
		t.Error("the watches are still in memory although the message is encoded")
	}
	now = now.Add(appliedTick)
	if changed, _ := other.current(); changed == digest {
		t.Error("got the old count, want a new one")
	}
	one.current()
	want(3, 2)
	for _, done := range leave {
		done()
	}
	if n := len(a.open); n != 0 {
		t.Errorf("%d questions are left", n)
	}
}
