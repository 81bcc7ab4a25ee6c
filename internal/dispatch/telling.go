package dispatch

import (
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Telling is a live message, which all watchers share who are told the same next. It
// must not be modified.
type Telling struct {
	Message
	form atomic.Value

	from  telling
	first object.Revision // of its events
	end   cut
	keys  atomic.Int32 // see distinct; 0: nobody has asked
}

// telling is where a message begins, and what it was made of. Those who are at the same
// place, see the same view and want every event are told the same.
type telling struct {
	view   *view
	cursor object.Revision
	sent   int
}

// Form returns what makes of the message, which is made for the first watcher that asks,
// and hardly ever for another one. It is for what is sent over the network.
func (t *Telling) Form(makes func(*Message) any) any {
	form := t.form.Load()
	if form == nil {
		form = makes(&t.Message)
		t.form.Store(form)
	}
	return form
}

// follows reports whether the message is what comes next for who has been told everything
// up to a cursor, and some of the events behind it. The position of a part of a revision
// is where who was told it was before.
func (t *Telling) follows(cursor object.Revision, sent int) bool {
	if t.from.sent > 0 || t.end.partial {
		return cursor == t.from.cursor && sent == t.from.sent
	}
	return sent == 0 && t.from.cursor <= cursor && cursor < t.first
}

// distinct reports whether what waits, in the message and behind it, is of different keys.
// That takes memory to find out, so it is for the first watcher that asks.
func (t *Telling) distinct() bool {
	const different, repeated = 1, 2
	if t.keys.Load() == 0 {
		found := int32(repeated)
		if t.from.view.distinct(t.from.cursor) {
			found = different
		}
		t.keys.Store(found)
	}
	return t.keys.Load() == different
}

// telling returns the message with what a view has from some place on, or nil if it has
// nothing there.
func (f *feed) telling(from telling, d *Dispatcher) *Telling {
	if from.view.before(from.cursor) {
		return nil
	}
	if t := f.tellings.find(from); t != nil {
		return t
	}
	pieces, end, first := from.view.read(from.cursor, from.sent, d.cfg.MessageBytes)
	if end.taken == 0 {
		return nil
	}
	t := &Telling{from: from, first: first.at, end: end, Message: Message{
		Events: pieces, Count: end.taken, Arrived: d.began.Add(first.arrived),
		Header: object.Header{
			Kind: object.Live, Position: object.Position{Epoch: from.view.after.Epoch, Revision: end.upto}, Partial: end.partial,
		},
	}}
	if f.shared.Load() {
		f.share(t)
	}
	return t
}

// tellings are the messages that watchers of a feed were told last. While ten thousand
// are told of an event, few other events come: so four is a good number, of which
// each is at most as large as a message.
type tellings struct {
	recent [4]atomic.Pointer[Telling]
	next   atomic.Uint32 // which is replaced next
}

// find returns the message that begins there, or nil.
func (t *tellings) find(from telling) *Telling {
	for i := range t.recent {
		if told := t.recent[i].Load(); told != nil && told.from == from {
			return told
		}
	}
	return nil
}

// add keeps a message, and returns where.
func (t *tellings) add(one *Telling) *atomic.Pointer[Telling] {
	place := &t.recent[t.next.Add(1)%uint32(len(t.recent))]
	place.Store(one)
	return place
}

// forget drops all, so that they keep nothing in memory that the log does not.
func (t *tellings) forget() {
	for i := range t.recent {
		t.recent[i].Store(nil)
	}
}
