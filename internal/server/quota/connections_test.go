package quota

import (
	"log/slog"
	"testing"
	"time"
)

// Clients that open as many connections as they can, from one address or from many, leave some to
// others and to operators.
func TestConnectionsAreKeptForOthersAndForOperators(t *testing.T) {
	const total, perClient, operators = 20, 12, 4
	fill := func(admit func(string) (func(), time.Duration, bool), addresses ...string) (admitted int) {
		for _, address := range addresses {
			for range 2 * total {
				if _, _, ok := admit(address); ok {
					admitted++
				}
			}
		}
		return admitted
	}
	l := New(Limits{Connections: total, ConnectionsPerClient: perClient, OperatorConnections: operators}, slog.New(slog.DiscardHandler))
	if n := fill(l.AdmitConnection, "127.0.0.1:1"); n != perClient {
		t.Errorf("one address got %d connections, want %d", n, perClient)
	}
	if n := fill(l.AdmitOperatorConnection, "127.0.0.1:1"); n != operators/2 {
		t.Errorf("an address without connections left got %d from operators, want %d", n, operators/2)
	}
	if n := fill(l.AdmitConnection, "127.0.0.2:1", "127.0.0.3:1"); n != total-operators-perClient-operators/2 {
		t.Errorf("others got %d connections", n)
	}
	if n := fill(l.AdmitOperatorConnection, "127.0.0.4:1"); n != operators {
		t.Errorf("operators got %d connections, want %d", n, operators)
	}
	if u := l.Usage(); u.Connections != total {
		t.Errorf("got %d connections, want %d", u.Connections, total)
	}
}

// An address that connects too often to one listener does not have to wait at the other.
func TestTheRateOfConnectionsIsThatOfAListener(t *testing.T) {
	l := New(Limits{ConnectionRate: 0.001, ConnectionBurst: 2}, slog.New(slog.DiscardHandler))
	for range 2 {
		if _, wait, ok := l.AdmitConnection("127.0.0.1:1"); !ok || wait != 0 {
			t.Fatalf("got %v, %v for one of the first connections", wait, ok)
		}
	}
	if _, _, ok := l.AdmitConnection("127.0.0.1:1"); ok {
		t.Error("a third connection was admitted")
	}
	if _, wait, ok := l.AdmitOperatorConnection("127.0.0.1:1"); !ok || wait != 0 {
		t.Errorf("at the listener of operators: got %v, %v, want no delay", wait, ok)
	}
}

func TestFrequentConnectionsAreDelayed(t *testing.T) {
	a := NewClientLimiters(2, 3)
	now := time.Now()
	often, seldom := Client{Address: "1"}, Client{Address: "2"}
	var got []time.Duration
	for {
		wait, ok := reserveConnection(&a, often, now)
		if !ok {
			break
		}
		got = append(got, wait)
	}
	// Three connections at once, and then two for each second of the maximum delay.
	if want := 3 + int(2*maxConnectionDelay/time.Second); len(got) != want || got[2] != 0 || got[3] != time.Second/2 || got[want-1] != maxConnectionDelay {
		t.Errorf("got delays %v, want none for three connections and up to %v for the others", got, maxConnectionDelay)
	}
	if wait, ok := reserveConnection(&a, seldom, now); !ok || wait != 0 {
		t.Errorf("another host: got delay %v, %v; want none", wait, ok)
	}
	// A refused connection does not count.
	if wait, ok := reserveConnection(&a, often, now.Add(time.Second/2)); !ok || wait != maxConnectionDelay {
		t.Errorf("half a second later: got delay %v, %v; want %v", wait, ok, maxConnectionDelay)
	}
	if wait, ok := reserveConnection(&ClientLimiters{}, often, now); !ok || wait != 0 {
		t.Errorf("without a limit: got delay %v, %v; want none", wait, ok)
	}
}
