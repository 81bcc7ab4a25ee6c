package dispatch

import (
	"context"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// PullSink is the sink of a watcher whose test takes the messages with Next. The worker
// sends none of them.
type PullSink struct{ Err error }

func (PullSink) Reserve() error                    { return nil }
func (PullSink) Send(Message) error                { panic("Send of a sink that is pulled") }
func (s PullSink) TrySend(*Batch, time.Time) error { return s.Err }
func (PullSink) CountSent(*Batch, int, time.Time)  {}
func (PullSink) Prefetch() int                     { return 0 }

// Pull registers a watcher whose test takes the messages with Next.
func (d *Dispatcher) Pull(q *sendqueue.Queue, i Interest, b Begin, o Options) *Watcher {
	return d.Watch(i, b, o, q, PullSink{ErrNeedsHandler})
}

// Polled registers a watcher whose test takes the messages with Try, Poll and Take. The
// worker sends none of them and does not hand the watcher back.
func (d *Dispatcher) Polled(q *sendqueue.Queue, i Interest, b Begin, o Options) *Watcher {
	return d.Watch(i, b, o, q, PullSink{ErrFull})
}

// Next waits for the next message, as the handler of a watch does.
func (w *Watcher) Next(ctx context.Context) (Message, error) {
	for {
		if m, ok, err := w.Try(); ok || err != nil {
			return m, err
		}
		w.HandOver()
		select {
		case <-w.HandedBack():
			if w.dispatcher.hasStopped() {
				return Message{}, ErrStopped
			}
		case <-ctx.Done():
			w.TakeBack()
			return Message{}, ctx.Err()
		}
	}
}

// Try returns the next message, or false if there is none now.
func (w *Watcher) Try() (Message, bool, error) { return w.next(time.Now()) }

// HandOver gives the watcher to its worker.
func (w *Watcher) HandOver() {
	if w.handedBack == nil {
		w.handedBack = make(chan struct{}, 1)
	}
	w.workerOwns.Store(true)
	w.task.Ready()
}

// HandedBack returns a channel that receives when the worker hands the watcher back.
func (w *Watcher) HandedBack() <-chan struct{} { return w.handedBack }

// TakeBack gets the watcher back from its worker.
func (w *Watcher) TakeBack() {
	w.Stop()
	<-w.handedBack
	w.stopping.Store(false)
}

// InGroup reports whether the watcher is in its group.
func (w *Watcher) InGroup() bool { return w.inGroup.Load() }

// IsStopped reports whether the dispatcher has stopped.
func (w *Watcher) IsStopped() bool { return w.dispatcher.hasStopped() }

// Outcome is the result of Poll and Take.
type Outcome int

const (
	Nothing Outcome = iota // there is no batch, or the watcher has delivered it
	Found                  // the batch is what the watcher sends next
	Refused                // the watcher needs something else
)

// Poll returns the next batch and moves the watcher past it, as its worker does.
func (w *Watcher) Poll(now time.Time) (*Batch, Outcome) {
	b, result := w.poll(now)
	switch result {
	case pollBatch:
		w.delivered(b, now)
		return b, Found
	case pollNeedsHandler:
		return nil, Refused
	}
	return nil, Nothing
}

// NothingFollows reports whether nothing follows the batch that Poll has returned.
func (w *Watcher) NothingFollows(b *Batch) bool {
	return !b.more && w.feed.version.Load() == w.version
}

// Take moves the watcher past a batch of its group, as its worker does.
func (w *Watcher) Take(b *Batch, now time.Time) Outcome {
	switch w.match(b) {
	case matchesNext:
		w.delivered(b, now)
		return Found
	case matchesSent:
		return Nothing
	}
	return Refused
}

// Kind returns the kind of the message.
func (b *Batch) Kind() object.MessageKind { return b.Header.Kind }

// Hollow makes the worker panic when it looks at another watch of the stream, or at what is due later
// than the next. The stream must be idle.
func (s *Stream) Hollow(w *StreamWatch) (restore func()) {
	feeds, groups := map[*streamCursor]*feed{}, map[*streamCursor]*group{}
	for _, src := range s.sources {
		for _, c := range src.cursors {
			if c != w.cursor.Load() {
				feeds[c], c.feed = c.feed, nil
				groups[c], c.group = c.group, nil
			}
		}
	}
	all := slices.Clone(s.clock.due)
	for i := range s.clock.due {
		if i > 0 {
			s.clock.due[i] = due{}
		}
	}
	return func() {
		for c, f := range feeds {
			c.feed, c.group = f, groups[c]
		}
		copy(s.clock.due, all)
	}
}

// Holdings counts what a stream holds.
type Holdings struct {
	Watches, Cursors                      int
	Marked, Settling, Joins               int
	Due                                   int           // ends, and batch delays
	Candidates, Delayed                   int           // cursors that may move to a shared one
	CatchUps, Parked                      int           // cursors that wait for Serve, and for the reservation
	Directs, DirectsWaiting               int           // watches of StartDirect
	Answers, ToClose                      int           // ends that were not sent, and cursors that were not closed
	Interval                              time.Duration // between two looks for bookmarks
	Interests, StreamWatches, SharedLists int           // of the dispatchers
}

// Holds returns what the stream holds. The stream must be idle.
func (s *Stream) Holds() Holdings {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := Holdings{
		Watches: s.watches, Settling: len(s.settling), Joins: len(s.joins), Due: len(s.clock.due),
		Candidates: len(s.candidates), CatchUps: len(s.catchUps.waiting), Parked: len(s.catchUps.parked),
		Directs: len(s.directs.all), Answers: s.answers.waiting + len(s.waitingAnswers), ToClose: len(s.toClose), Interval: s.clock.interval,
	}
	for _, l := range s.directs.lanes() {
		h.DirectsWaiting += len(l.waiting)
	}
	for _, all := range s.delayed {
		h.Delayed += len(all)
	}
	for _, src := range s.sources {
		h.Cursors += len(src.cursors)
		h.Marked += len(src.marked)
		h.StreamWatches += src.rounds.streamWatches
		h.Interests += src.dispatcher.Interests()
		for c := range src.cursors {
			h.SharedLists += len(src.cursors[c].group.shared)
		}
	}
	return h
}
