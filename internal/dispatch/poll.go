package dispatch

import "github.com/fanoutd/fanoutd/internal/object"

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
// nothing happens. It writes the message to m, whose memory it uses.
func (w *Watcher) Poll(m *Message) Outcome {
	if w.step != live {
		return Elsewhere
	}
	if w.clock.hold(&w.options, w.wake) {
		return Nothing
	}
	for {
		w.version = w.feed.version.Load()
		// The order matters, as in nextEvents and in events.
		through := w.through()
		v := w.feed.view.Load()
		if !w.in(v) || w.mergeTo > 0 || w.options.Latest && w.sent == 0 && !v.distinct(w.cursor) {
			return Elsewhere
		}
		cursor, sent := w.cursor, w.sent
		b, end := w.take(v, m.Events[:0])
		result := w.moved(end, through)
		if w.options.EveryEvent && cursor < w.dispatcher.cfg.Source.State().Relisted() {
			w.cursor, w.sent = cursor, sent
			return Elsewhere
		}
		if w.more = end.full; result == someEvents {
			*m = w.message(object.Live, b)
			w.clock.note(&w.options, object.Live)
			return Told
		}
		if quiet, ok := w.bookmark(); ok {
			*m = quiet
			w.clock.note(&w.options, object.Bookmark)
			return Told
		}
		if w.park() {
			w.clock.alarm(&w.options, w.wake)
			return Nothing
		}
	}
}

// Settle has the watcher woken when there is something to say after the message that
// Poll has returned, and returns false if there is already.
func (w *Watcher) Settle() bool {
	if w.more || !w.park() {
		return false
	}
	w.clock.alarm(&w.options, w.wake)
	return true
}
