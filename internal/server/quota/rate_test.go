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

// A client that comes back after RetryAfter is served, and an earlier attempt is refused.
func TestRetryAfterIsExact(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, perSecond := range []float64{0.1, 1, 3, 1000} {
			r := requestLimiter{NewClientLimiters(perSecond, 0), apierr.MaxRequestRate, "requests"}
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
					t.Fatalf("got %v, want a LimitError with RetryAfter", err)
				}
				if other := r.allow(ClientOf(as(t.Context(), "bob"))); other != nil && refused == 1 {
					t.Errorf("another client: got %v, want no error", other)
				}
				time.Sleep(limit.RetryAfter * 99 / 100)
				if err := r.allow(ClientOf(ctx)); err == nil && limit.RetryAfter > time.Millisecond {
					t.Errorf("rate %v: got RetryAfter %v, but a shorter wait is enough", perSecond, limit.RetryAfter)
				}
				time.Sleep(limit.RetryAfter - limit.RetryAfter*99/100)
			}
			if refused == 0 && perSecond < 10 {
				t.Errorf("rate %v: got no refusal", perSecond)
			}
		}
	})
}

func TestClientsAreIdentifiedByNameOrHost(t *testing.T) {
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
			t.Errorf("client at %q: got %q, want %q", address, got, want)
		}
	}
	if got := ClientOf(as(t.Context(), "ann")); got != (Client{Name: "ann"}) {
		t.Errorf("got client %v, want the name ann", got)
	}
	if ClientAt("ann") == ClientOf(as(t.Context(), "ann")) {
		t.Error("a host with the name of a client is taken for that client")
	}
}
