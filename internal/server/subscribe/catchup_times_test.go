package subscribe

import (
	"testing"
	"time"
)

// Catch-ups of a stream overlap. The time in which the stream waits for its client does not count.
func TestTheTimeOfACatchUpIsThatOfTheServer(t *testing.T) {
	var times catchUpTimes
	start := time.Now()
	at := func(seconds int) time.Time { return start.Add(time.Duration(seconds) * time.Second) }
	want := func(id uint64, now, seconds int) {
		t.Helper()
		if got := times.end(id, at(now)); got != time.Duration(seconds)*time.Second {
			t.Errorf("watch %d: got %v, want %d s", id, got, seconds)
		}
	}
	times.begin(1, at(0))
	times.wait(at(2))
	times.begin(2, at(5)) // the watch began while the stream waited
	times.wait(at(6))
	if !times.waits() {
		t.Error("no response waits")
	}
	times.endWait(at(10))
	if got := times.beginOf(at(4)); !got.Equal(at(10)) {
		t.Errorf("a watch that began while a response waited counts from %v, want %v", got, at(10))
	}
	if got := times.beginOf(at(11)); !got.Equal(at(11)) {
		t.Errorf("got %v, want %v", got, at(11))
	}
	times.begin(3, at(11))
	times.begin(4, at(11))
	times.wait(at(12))
	times.endWait(at(15))
	want(1, 20, 20-8-3)
	want(3, 21, 10-3)
	want(1, 22, 0) // has ended
	times.forget(4)
	want(4, 22, 0)
	times.forget(2)
	if times.begun != nil || times.waits() {
		t.Errorf("got %v, want nothing", times)
	}
}
