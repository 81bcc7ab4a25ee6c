package quota

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

func as(ctx context.Context, name string) context.Context {
	return access.With(ctx, access.Identity{Name: name, Method: access.Token})
}

// Who comes back when it is told to is served.
func TestTheHintIsRight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, perSecond := range []float64{0.1, 1, 3, 1000} {
			r := newRequestLimiter(perSecond, 0)
			ctx := as(t.Context(), "ann")
			served, refused := 0, 0
			for served < 10 {
				err := r.allow(ClientOf(ctx))
				if err == nil {
					served++
					continue
				}
				refused++
				limit, ok := errors.AsType[*apierr.LimitError](err)
				if !ok || limit.RetryAfter <= 0 {
					t.Fatalf("refused with %v", err)
				}
				if other := r.allow(ClientOf(as(t.Context(), "bob"))); other != nil && refused == 1 {
					t.Errorf("another client is refused: %v", other)
				}
				time.Sleep(limit.RetryAfter * 99 / 100)
				if err := r.allow(ClientOf(ctx)); err == nil && limit.RetryAfter > time.Millisecond {
					t.Errorf("at a rate of %v the hint is %v, and less would do", perSecond, limit.RetryAfter)
				}
				time.Sleep(limit.RetryAfter - limit.RetryAfter*99/100)
			}
			if refused == 0 && perSecond < 10 {
				t.Errorf("at a rate of %v nobody was refused", perSecond)
			}
		}
	})
}

func TestClientsAreTheirNamesOrTheirHosts(t *testing.T) {
	for address, want := range map[string]string{
		"10.1.2.3:4":                "10.1.2.3",
		"10.1.2.3":                  "10.1.2.3",
		"[::ffff:10.1.2.3]:4":       "10.1.2.3",
		"[2001:db8:1:2:3:4:5:6]:7":  "2001:db8:1:2::/64",
		"2001:db8:1:2:ffff:ffff::1": "2001:db8:1:2::/64",
		"[fe80::1%eth0]:7":          "fe80::/64",
		"somewhere":                 "somewhere",
		"":                          "unknown",
	} {
		if got := ClientAt(address).String(); got != want {
			t.Errorf("the client at %q is %q, want %q", address, got, want)
		}
	}
	if got := ClientOf(as(t.Context(), "ann")); got != (Client{Name: "ann"}) {
		t.Errorf("who is ann is %v", got)
	}
	if ClientAt("ann") == ClientOf(as(t.Context(), "ann")) {
		t.Error("a host is taken for somebody")
	}
}
