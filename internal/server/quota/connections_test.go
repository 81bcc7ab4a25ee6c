package quota

import (
	"testing"
	"time"
)

func TestWhoConnectsTooOftenWaitsForItsTurn(t *testing.T) {
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
	// Three at once, and then two for each second that somebody may wait.
	if want := 3 + int(2*maxConnectionDelay/time.Second); len(got) != want || got[2] != 0 || got[3] != time.Second/2 || got[want-1] != maxConnectionDelay {
		t.Errorf("connections wait %v, want three not at all and the others up to %v", got, maxConnectionDelay)
	}
	if wait, ok := a.reserve(seldom, now); !ok || wait != 0 {
		t.Errorf("another host waits %v, %v", wait, ok)
	}
	// Who was turned away has used up nothing.
	if wait, ok := a.reserve(often, now.Add(time.Second/2)); !ok || wait != maxConnectionDelay {
		t.Errorf("half a second later one waits %v, %v, want %v", wait, ok, maxConnectionDelay)
	}
	if wait, ok := (*connLimiter)(nil).reserve(often, now); !ok || wait != 0 {
		t.Errorf("without a limit one waits %v, %v", wait, ok)
	}
}
