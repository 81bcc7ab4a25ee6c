package quota

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// logInterval is how often the log mentions refusals of one kind. A refused client may come
// back many times a second.
const logInterval = 10 * time.Second

// throttle limits log lines to one per interval and kind.
type throttle struct {
	mu    sync.Mutex
	kinds map[any]*throttledKind // guarded by mu
}

type throttledKind struct {
	sometimes rate.Sometimes
	times     int // guarded by throttle.mu; since the last line
}

// note calls log with the number of times since its last call, or counts for the next call.
func (t *throttle) note(kind any, log func(times int)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	k := t.kinds[kind]
	if k == nil {
		k = &throttledKind{sometimes: rate.Sometimes{Interval: logInterval}}
		t.kinds[kind] = k
	}
	k.times++
	k.sometimes.Do(func() {
		log(k.times)
		k.times = 0
	})
}
