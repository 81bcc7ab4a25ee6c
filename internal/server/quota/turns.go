package quota

import (
	"runtime"
	"sync"
	"time"
)

// hostTurns are the turns in which the connections of one host begin streams and watches. In a turn,
// the processors first run what waits for them. Then the connections that have asked meanwhile begin a
// burst each. So the requests of a host do not come faster than the processors can serve those of all
// hosts. While a processor is idle, turns take no time, so a host may use the whole machine.
type hostTurns struct {
	yield func() // runs what waits for a processor

	mu   sync.Mutex
	turn chan struct{} // closed at the end of the present turn; nil: there is none; guarded by mu
}

// maxTurnWait limits how long a connection waits for the turn of another one. On very busy processors,
// a turn may take a fifth of a second, during which a connection reads nothing else.
const maxTurnWait = 25 * time.Millisecond

func newHostTurns() *hostTurns { return &hostTurns{yield: runtime.Gosched} }

// await waits for the end of a turn, or until done is closed. If there is no turn, it takes one.
func (t *hostTurns) await(done <-chan struct{}) {
	t.mu.Lock()
	turn := t.turn
	if turn == nil {
		t.turn = make(chan struct{})
		t.mu.Unlock()
		t.yield()
		t.end()
		return
	}
	t.mu.Unlock()
	limit := time.NewTimer(maxTurnWait)
	defer limit.Stop()
	select {
	case <-turn:
	case <-limit.C:
	case <-done:
	}
}

// end ends the present turn.
func (t *hostTurns) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.turn)
	t.turn = nil
}

// noticeableWait is how long a wait for a turn may last before it is counted and logged.
const noticeableWait = 10 * time.Millisecond

// noteWait counts and logs a wait for a turn. It returns 0 if the wait was short.
func (l *Limiter) noteWait(host Client, waited time.Duration) time.Duration {
	if waited < noticeableWait {
		return 0
	}
	l.turnWaits.Add(1)
	l.throttle.note("turns", func(times int) {
		l.log.Info("new requests wait because the processors are busy", "waits", times, "client", host.String(), "waited", waited)
	})
	return waited
}
