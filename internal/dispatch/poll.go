package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Outcome is what [Watcher.Poll] has found.
type Outcome uint8

// The outcomes.
const (
	Nothing   Outcome = iota // to say now; the watcher is woken when that may have changed
	Told                     // a message
	Elsewhere                // what is to be said next is not in the log: call Try
)

// Poll is [Watcher.Try] for those who serve many watchers in turn and must not keep the
// others waiting: it says what can be said at once, which is what the log has, and that
// nothing happens. It is told the time, as is Settle.
func (w *Watcher) Poll(now time.Time) (*Telling, Outcome) {
	if w.step != live {
		return nil, Elsewhere
	}
	if w.clock.hold(now, w.wake) {
		return nil, Nothing
	}
	for {
		w.version = w.feed.version.Load()
		// The order matters, as in nextEvents and in events.
		through := w.through()
		v := w.feed.view.Load()
		if !w.in(v) || w.mergeTo > 0 {
			return nil, Elsewhere
		}
		t := w.feed.telling(telling{v, w.cursor, w.sent}, w.dispatcher)
		if t != nil && w.latest && w.sent == 0 && !t.distinct() {
			return nil, Elsewhere
		}
		if w.everyEvent && w.cursor < w.dispatcher.cfg.Source.State().Relisted() {
			return nil, Elsewhere
		}
		if t != nil {
			if w.latest && t.end.partial {
				w.mergeTo = t.end.current // see nextEvents
			}
			w.moved(t.end, through)
			w.more = t.end.full
			w.note(object.Live, now)
			return t, Told
		}
		w.moved(cut{upto: w.cursor}, through)
		w.more = false
		if quiet, ok := w.bookmark(now); ok {
			w.note(object.Bookmark, now)
			return &Telling{Message: quiet}, Told
		}
		if w.park() {
			w.clock.alarm(now, w.wake)
			return nil, Nothing
		}
	}
}

// Settle has the watcher woken when there is something to say after the message that
// Poll has returned, and returns false if there is already.
func (w *Watcher) Settle(now time.Time) bool {
	if w.more || !w.park() {
		return false
	}
	w.clock.alarm(now, w.wake)
	return true
}

// Take moves a follower behind a message that others are told. It returns Told if that is
// what comes next, Nothing if the watcher knows it already, and Elsewhere if it needs
// something else first, or instead: poll it. As [Watcher.Poll] it belongs to who serves
// the watcher, on the worker of its lane.
func (w *Watcher) Take(t *Telling, now time.Time) Outcome {
	known := !t.end.partial && w.cursor >= t.end.upto
	switch {
	case w.step != live, w.epoch != t.Header.Position.Epoch, w.mergeTo > 0:
		return Elsewhere
	case w.sent == 0 && t.from.sent == 0 && known:
		return Nothing
	case !t.follows(w.cursor, w.sent):
		return Elsewhere
	case w.latest && (t.end.partial || t.from.sent > 0 || !t.distinct()):
		return Elsewhere
	case w.everyEvent && w.cursor < w.dispatcher.cfg.Source.State().Relisted():
		return Elsewhere
	}
	w.cursor, w.sent = t.end.after(w.cursor, w.sent)
	w.note(object.Live, now)
	return Told
}
