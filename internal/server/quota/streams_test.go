package quota

import (
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// abandon abandons streams until the budget is used up, and returns how many it could.
func abandon(b *StreamBudget, client string) (n int, err error) {
	for err == nil {
		if err = b.AbandonStream(client); err == nil {
			n++
		}
	}
	return n, err
}

// Each connection has a budget of abandoned streams, and so has each client for all its
// connections. Clients that have authenticated do not use that of their host.
func TestAbandonedStreamsAreLimitedForConnectionsAndClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{ResetRate: 10, ResetRatePerClient: 15}, slog.New(slog.DiscardHandler))
		for _, c := range []struct {
			address, client string
			want            int
			limit           ConnectionLimit
		}{
			{"10.0.0.1:1", "", 10, MaxResetRate},
			{"10.0.0.1:2", "", 4, MaxResetRatePerClient}, // the first connection has used one more in vain
			{"10.0.0.2:1", "", 10, MaxResetRate},
			{"10.0.0.1:3", "ann", 10, MaxResetRate},
			{"10.0.0.3:1", "ann", 5, MaxResetRatePerClient},
		} {
			n, err := abandon(l.StreamBudget(c.address), c.client)
			over, ok := errors.AsType[*AbandonedError](err)
			if !ok || over.Limit != c.limit || n < c.want || n > c.want+1 {
				t.Errorf("%s %q: got %d abandoned streams, then %v; want %d, then the limit %s", c.address, c.client, n, err, c.want, c.limit)
			}
		}
		if got := l.Usage().RefusedConnections; got[MaxResetRate] != 3 || got[MaxResetRatePerClient] != 2 {
			t.Errorf("got refused connections %v, want 3 and 2", got)
		}
		time.Sleep(time.Second)
		if n, _ := abandon(l.StreamBudget("10.0.0.1:4"), ""); n != 10 {
			t.Errorf("a second later: got %d abandoned streams, want 10", n)
		}
	})
}

// A client that behaves well keeps its connection although others of its host have used up the
// budget of the host.
func TestOthersOfAHostDoNotCloseAConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{ResetRate: 500, ResetRatePerClient: 1000}, slog.New(slog.DiscardHandler))
		wellBehaved := l.StreamBudget("10.0.0.1:1")
		attackers := []*StreamBudget{l.StreamBudget("10.0.0.1:2"), l.StreamBudget("10.0.0.1:3"), l.StreamBudget("10.0.0.1:4")}
		for second := range 10 {
			for _, b := range attackers {
				_, _ = abandon(b, "")
			}
			for range 5 {
				if err := wellBehaved.AbandonStream(""); err != nil {
					t.Fatalf("second %d: %v", second, err)
				}
			}
			if n, err := abandon(l.StreamBudget("10.0.0.1:5"), ""); n > 10 {
				t.Errorf("another connection: got %d abandoned streams, then %v; want at most 10", n, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// An abandoned request of HTTP counts for ten streams.
func TestAbandonedHTTPRequestsWeighMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{ResetRate: 100, ResetRatePerClient: 1000}, slog.New(slog.DiscardHandler))
		if n, _ := abandon(l.HTTPStreamBudget("10.0.0.1:1"), ""); n != 10 {
			t.Errorf("got %d abandoned requests, want 10", n)
		}
	})
}

func TestWithoutALimitAnyNumberOfStreamsMayBeAbandoned(t *testing.T) {
	unlimited := New(Limits{}, slog.New(slog.DiscardHandler)).StreamBudget("10.0.0.1:1")
	for range 1000 {
		if err := unlimited.AbandonStream(""); err != nil {
			t.Fatal(err)
		}
	}
}
