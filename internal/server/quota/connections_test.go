package quota

import (
	"testing"
	"time"
)

func TestFrequentConnectionsAreDelayed(t *testing.T) {
	a := newConnLimiter(2, 3)
	now := time.Now()
	often, seldom := Client{Address: "1"}, Client{Address: "2"}
	var got []time.Duration
	for {
		wait, ok := a.reserve(often, now)
		if !ok {
			break
		}
		got = append(got, wait)
	}
	// Three connections at once, and then two for each second of the maximum delay.
	if want := 3 + int(2*maxConnectionDelay/time.Second); len(got) != want || got[2] != 0 || got[3] != time.Second/2 || got[want-1] != maxConnectionDelay {
		t.Errorf("got delays %v, want none for three connections and up to %v for the others", got, maxConnectionDelay)
	}
	if wait, ok := a.reserve(seldom, now); !ok || wait != 0 {
		t.Errorf("another host: got delay %v, %v; want none", wait, ok)
	}
	// A refused connection does not count.
	if wait, ok := a.reserve(often, now.Add(time.Second/2)); !ok || wait != maxConnectionDelay {
		t.Errorf("half a second later: got delay %v, %v; want %v", wait, ok, maxConnectionDelay)
	}
	if wait, ok := (*connLimiter)(nil).reserve(often, now); !ok || wait != 0 {
		t.Errorf("without a limit: got delay %v, %v; want none", wait, ok)
	}
}
