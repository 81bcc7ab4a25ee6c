package quota

import (
	"runtime"
	"time"
)

// hostTurns are the turns in which the connections of one host begin streams and watches. In a turn,
// the processors first run what waits for them. Then the connection begins a burst. So few handlers
// of a host wait for a processor at a time, however many connections the host has, and the requests
// of other hosts do not queue behind thousands of them. While a processor is idle, turns take no
// time, so a host may use the whole machine.
type hostTurns struct {
	turn  chan struct{} // has an element during a turn; connections get it in the order in which they ask
	yield func()        // runs what waits for a processor
}

func newHostTurns() *hostTurns { return &hostTurns{make(chan struct{}, 1), runtime.Gosched} }

// await waits for a turn, or until done is closed.
func (t *hostTurns) await(done <-chan struct{}) {
	select {
	case t.turn <- struct{}{}:
		t.yield()
		<-t.turn
	case <-done:
	}
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
