package work

import "runtime"

// Turns limits how many goroutines do expensive work at a time: half as many as there are
// processors. A goroutine that waits for its turn delays no other work. Without turns, the
// work for live events would wait for all catch-ups that begin at the same time.
type Turns chan struct{}

// NewTurns returns unused turns. All resources of a process should share one Turns.
func NewTurns() Turns { return make(Turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// Do waits for a turn and calls a function. The function must not wait for a client or for
// another turn.
func (t Turns) Do(work func()) {
	t <- struct{}{}
	defer func() { <-t }()
	work()
}
