package dispatch

import "runtime"

// Turns let a few goroutines work at a time, half as many as there are processors. The others
// wait, and a goroutine that waits delays nobody. Without turns, the work for live events
// would queue behind all catch-ups of a storm.
type Turns chan struct{}

// NewTurns returns turns. Dispatchers of one process should share them.
func NewTurns() Turns { return make(Turns, max(1, runtime.GOMAXPROCS(0)/2)) }

// Do calls a function when it is its turn. The function must not wait for a client, or for
// another turn.
func (t Turns) Do(work func()) {
	t <- struct{}{}
	defer func() { <-t }()
	work()
}
