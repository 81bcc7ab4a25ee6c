package quota

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// While processors have nothing else to do, a host opens streams as fast as it can.
func TestNothingWaitsWhileProcessorsAreIdle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{}, slog.New(slog.DiscardHandler))
		began, never := time.Now(), make(chan struct{})
		for _, address := range []string{"10.0.0.1:1", "10.0.0.1:2", "10.0.0.2:1"} {
			b := l.StreamBudget(address)
			for range 100_000 {
				b.AwaitTurn(never)
			}
		}
		if waited := time.Since(began); waited != 0 || l.Usage().TurnWaits != 0 {
			t.Errorf("got waits of %v, %d of them noticeable, want none", waited, l.Usage().TurnWaits)
		}
	})
}

// On busy processors, the connections of a host begin streams together, after what waited for a
// processor before. Those of other hosts do not wait for them. Closing a connection ends its wait.
func TestConnectionsOfAHostTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines bytes.Buffer
		l := New(Limits{}, slog.New(slog.NewTextHandler(&lines, nil)))
		const busy = 20 * time.Millisecond
		for _, host := range []string{"10.0.0.1", "10.0.0.2"} {
			l.turns.of(ClientAt(host)).yield = func() { time.Sleep(busy) }
		}
		began, never, closed := time.Now(), make(chan struct{}), make(chan struct{})
		type turn struct {
			connection string
			at         time.Duration
		}
		turns := make(chan turn, 10)
		ask := func(connection, address string, closed chan struct{}) {
			b := l.StreamBudget(address)
			go func() {
				if waited := b.AwaitTurn(closed); waited != time.Since(began) {
					t.Errorf("%s: got a wait of %v after %v", connection, waited, time.Since(began))
				}
				turns <- turn{connection, time.Since(began)}
			}()
			synctest.Wait()
		}
		ask("first", "10.0.0.1:1", never)
		ask("second", "10.0.0.1:2", never)
		ask("closed", "10.0.0.1:3", closed)
		ask("third", "10.0.0.1:4", never)
		time.Sleep(busy / 2)
		close(closed)
		synctest.Wait()
		time.Sleep(3 * busy)
		if got, want := <-turns, (turn{"closed", busy / 2}); got != want {
			t.Errorf("got %v, want %v", got, want)
		}
		together := []turn{<-turns, <-turns, <-turns}
		for _, connection := range []string{"first", "second", "third"} {
			if want := (turn{connection, busy}); !slices.Contains(together, want) {
				t.Errorf("got %v, want also %v", together, want)
			}
		}
		began = time.Now()
		ask("one", "10.0.0.1:1", never)
		ask("another host", "10.0.0.2:1", never)
		time.Sleep(busy)
		synctest.Wait()
		both := []turn{<-turns, <-turns}
		if !slices.Contains(both, turn{"one", busy}) || !slices.Contains(both, turn{"another host", busy}) {
			t.Errorf("got %v, want both after %v", both, busy)
		}
		if n := l.Usage().TurnWaits; n != 6 {
			t.Errorf("got %d noticeable waits, want 6", n)
		}
		if n := strings.Count(lines.String(), "new requests wait"); n != 1 {
			t.Errorf("got %d lines, want 1:\n%s", n, lines.String())
		}
	})
}

// A turn that takes long holds only the connection that has taken it.
func TestWaitsForATurnAreShort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Limits{}, slog.New(slog.DiscardHandler))
		l.turns.of(ClientAt("10.0.0.1")).yield = func() { time.Sleep(time.Second) }
		never := make(chan struct{})
		go l.StreamBudget("10.0.0.1:1").AwaitTurn(never)
		synctest.Wait()
		for range 3 {
			if waited := l.StreamBudget("10.0.0.1:2").AwaitTurn(never); waited != maxTurnWait {
				t.Errorf("got a wait of %v, want %v", waited, maxTurnWait)
			}
		}
		time.Sleep(time.Second)
	})
}
