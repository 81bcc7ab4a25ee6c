package subscribe

import "time"

// catchUpTimes measures how long the catch-ups of a stream take. The time in which a response waits
// for the client does not count. Only the sender uses it, and the worker when it asks for room.
type catchUpTimes struct {
	begun  map[uint64]begunCatchUp // by the id of the watch, or of the first of several that share a catch-up
	waited time.Duration           // the time in which responses have waited for the client
	since  time.Time               // since when a response waits; zero: none does
	until  time.Time               // when the latest wait was over; zero: there was none
}

type begunCatchUp struct {
	at     time.Time
	waited time.Duration // what catchUpTimes.waited was then
}

// wait records that a response waits for the client.
func (t *catchUpTimes) wait(now time.Time) {
	if t.since.IsZero() {
		t.since = now
	}
}

// waits reports whether a response waits for the client.
func (t *catchUpTimes) waits() bool { return !t.since.IsZero() }

// endWait records that no response waits any more.
func (t *catchUpTimes) endWait(now time.Time) {
	t.waited += now.Sub(t.since)
	t.since, t.until = time.Time{}, now
}

// beginOf returns when the server could begin to send to a watch that began at a time: not while
// another response waited.
func (t *catchUpTimes) beginOf(began time.Time) time.Time {
	if began.Before(t.until) {
		return t.until
	}
	return began
}

// begin records that a catch-up has begun at a time.
func (t *catchUpTimes) begin(id uint64, at time.Time) {
	if t.begun == nil {
		t.begun = map[uint64]begunCatchUp{}
	}
	t.begun[id] = begunCatchUp{at, t.waited}
}

// end returns how long a catch-up has taken, or 0 if none had begun.
func (t *catchUpTimes) end(id uint64, now time.Time) time.Duration {
	c, ok := t.begun[id]
	if !ok {
		return 0
	}
	t.forget(id)
	return now.Sub(c.at) - (t.waited - c.waited)
}

// forget forgets the catch-up of a watch that has ended.
func (t *catchUpTimes) forget(id uint64) {
	if delete(t.begun, id); len(t.begun) == 0 {
		t.begun = nil // most streams have no catch-up for most of their time
	}
}
