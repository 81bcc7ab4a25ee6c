package dispatch

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/sendqueue"
)

// Pulled is a watch with a stream of its own, whose sink has room for one message each time that the
// test asks for one. It implements [StreamSink].
type Pulled struct {
	*StreamWatch
	stream *Stream
	cursor *cursor           // set by the worker
	out    chan feed.Message // capacity 1
	done   chan struct{}     // closed when Serve has returned
	err    error             // of Serve

	mu    sync.Mutex
	asked bool           // guarded by mu: the sink has room
	count map[string]int // guarded by mu: see Count
}

// Pull starts a watch whose test takes the messages with Next.
func (d *Dispatcher) Pull(q *sendqueue.Queue, i feed.Interest, b catchup.Begin, o Options) *Pulled {
	return d.PullCounted(q, i, b, o, nil)
}

// What can happen to a watch.
const (
	SentByGroup  = "sent as a member of its group"
	SentByStream = "sent by its stream"
	Counted      = "counted"
	Full         = "no room"
)

// PullCounted is Pull, and counts what happens.
func (d *Dispatcher) PullCounted(q *sendqueue.Queue, i feed.Interest, b catchup.Begin, o Options, count map[string]int) *Pulled {
	p := &Pulled{StreamWatch: &StreamWatch{}, out: make(chan feed.Message, 1), done: make(chan struct{}), count: count}
	p.stream = NewStream(StreamConfig{Queue: q, Sink: p, Solo: true, LastBookmark: o.LastBookmark})
	p.holdSlot()
	p.stream.Start(d, p.StreamWatch, i, b, o)
	p.stream.post(func(time.Time) { p.cursor = p.StreamWatch.cursor.Load() })
	go func() {
		defer close(p.done)
		p.err = p.stream.Serve()
	}()
	return p
}

// Next waits for the next message.
func (p *Pulled) Next(ctx context.Context) (feed.Message, error) {
	select {
	case m := <-p.out:
		return m, nil
	default:
	}
	p.ask(true)
	defer p.ask(false)
	p.stream.Ready()
	select {
	case m := <-p.out:
		p.flush()
		return m, nil
	case <-p.done:
		return feed.Message{}, p.err
	case <-ctx.Done():
		return feed.Message{}, ctx.Err()
	}
}

func (p *Pulled) ask(asked bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = asked
}

// flush waits until the worker has noted that a message was sent.
func (p *Pulled) flush() {
	flushed := make(chan struct{})
	if p.stream.post(func(time.Time) { close(flushed) }) {
		select {
		case <-flushed:
		case <-p.done:
		}
	}
}

// Position returns the position from which a client can resume.
func (p *Pulled) Position() object.Position {
	got := make(chan object.Position, 1)
	if p.stream.post(func(time.Time) { got <- p.cursor.position() }) {
		select {
		case at := <-got:
			return at
		case <-p.done:
		}
	}
	<-p.done
	return p.cursor.At()
}

// Close ends the watch, as the loss of its connection does.
func (p *Pulled) Close() {
	p.stream.Abort(errors.New("closed"))
	<-p.done
}

// happens counts what happens.
func (p *Pulled) happens(what string) {
	if p.count != nil {
		p.count[what]++
	}
}

// HasRoom implements [StreamSink].
func (p *Pulled) HasRoom() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.asked {
		p.happens(Full)
	}
	return p.asked
}

// TakesBatch implements [StreamSink].
func (p *Pulled) TakesBatch() bool { return p.HasRoom() }

// take takes a message.
func (p *Pulled) take(m *feed.Message, what string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.happens(what)
	p.asked = false
	p.out <- *m
}

// TrySend implements [StreamSink].
func (p *Pulled) TrySend(r *Response, _ time.Time) error {
	for i := range r.Entries {
		if b := r.Entries[i].Batch; b != nil && b.Header.Kind != object.Draining {
			p.take(&b.Message, SentByStream)
		}
	}
	return nil
}

// SendBatch implements [StreamSink].
func (p *Pulled) SendBatch(b MemberBatch, _ time.Time) (bytes int, err error) {
	p.take(&b.Batch.Message, SentByGroup)
	return b.Batch.Size(), nil
}

// CountSent implements [StreamSink].
func (p *Pulled) CountSent(*Dispatcher, *feed.Batch, int, int, time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.happens(Counted)
}

// Size implements [StreamSink].
func (*Pulled) Size(b *feed.Batch) int { return b.Size() }

// Prefetch implements [StreamSink].
func (*Pulled) Prefetch() int { return 0 }

// Send implements [StreamSink].
func (*Pulled) Send(*Response) error { panic("the sink never needs Serve") }

// AcquireSlot implements [StreamSink].
func (*Pulled) AcquireSlot(context.Context, bool) error { return nil }

// HoldsSlot implements [StreamSink].
func (*Pulled) HoldsSlot() bool { return true }

// ReleaseSlot implements [StreamSink]. The stream keeps the slot all the same, so no catch-up waits.
func (p *Pulled) ReleaseSlot() { p.holdSlot() }

func (p *Pulled) holdSlot() {
	p.stream.mu.Lock()
	defer p.stream.mu.Unlock()
	p.stream.catchUps.holdsSlot = !p.stream.ended
}

// Polled is a cursor that no worker serves. The test moves it with Try, Poll and Take.
type Polled struct{ cursor }

// Poll returns a cursor of a watch of the interest.
func (d *Dispatcher) Poll(q *sendqueue.Queue, i feed.Interest, b catchup.Begin, o Options) *Polled {
	p := &Polled{cursor{stream: &Stream{solo: true}}}
	p.group = d.enter(&i, q)
	p.Reader = catchup.NewReader(p.group.feed, b, o.Latest, o.EveryEvent)
	return p
}

// Close removes the watch from its feed.
func (p *Polled) Close() {
	p.AbandonCatchUp()
	p.group.dispatcher().exit(p.group, 1)
}

// Try returns the next message, or false if there is none now.
func (p *Polled) Try() (feed.Message, bool, error) {
	if p.Step == catchup.StepNow {
		p.Step = catchup.StepLive
		return p.Bookmark(), true, nil
	}
	m, ok, err := p.NextMessage()
	if ok || err != nil {
		return m, ok, err
	}
	if p.Step == catchup.StepCatchUp {
		return p.Synced(), true, nil
	}
	if b, _ := p.NextBatch(time.Now()); b != nil {
		p.Pass(b)
		return b.Message, true, nil
	}
	return feed.Message{}, false, nil
}

// Outcome is the result of Poll and Take.
type Outcome int

const (
	Nothing Outcome = iota // there is no batch, or it was delivered
	Found                  // the batch is what comes next
	Refused                // something else comes next
)

// Poll returns the next batch of the log and moves past it, as the worker does.
func (p *Polled) Poll(now time.Time) (*feed.Batch, Outcome) {
	b, ok := p.NextBatch(now)
	switch {
	case !ok:
		return nil, Refused
	case b == nil:
		return nil, Nothing
	}
	p.Pass(b)
	return b, Found
}

// NothingFollows reports whether nothing follows the batch that Poll has returned.
func (p *Polled) NothingFollows(b *feed.Batch) bool {
	return !b.More && p.Feed.View.Load().EndsAt(p.After)
}

// Take moves past a batch of the group, as the worker does.
func (p *Polled) Take(b *feed.Batch) Outcome {
	if p.MergeTo > 0 {
		return Refused // it would not be a member
	}
	switch {
	case p.has(b):
		return Nothing
	case p.wants(b):
		p.Pass(b)
		return Found
	}
	return Refused
}

// Answers returns the number of refusals and ends that wait to be sent.
func (s *Stream) Answers() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.answers.waiting
}

// IsMember reports whether the watch is a member of its group.
func (w *StreamWatch) IsMember() bool {
	c := w.cursor.Load()
	return c != nil && c.isMember.Load()
}

// Hollow makes the worker panic when it looks at another watch of the stream, or at what is due later
// than the next. The stream must be idle.
func (s *Stream) Hollow(w *StreamWatch) (restore func()) {
	feeds, groups := map[*cursor]*feed.Feed{}, map[*cursor]*group{}
	for _, res := range s.resources {
		for _, c := range res.cursors {
			if c != w.cursor.Load() {
				feeds[c], c.Feed = c.Feed, nil
				groups[c], c.group = c.group, nil
			}
		}
	}
	all := append(dueHeap(nil), s.clock.due...)
	for i := range s.clock.due {
		if i > 0 {
			s.clock.due[i] = due{}
		}
	}
	return func() {
		for c, f := range feeds {
			c.Feed, c.group = f, groups[c]
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
	CatchUps, Parked                      int           // cursors that wait for Serve, and for the slot
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
		Watches: s.watches, Settling: len(s.settling), Joins: len(s.joins),
		Candidates: len(s.candidates), CatchUps: len(s.catchUps.waiting), Parked: len(s.catchUps.parked),
		Answers: s.answers.waiting + len(s.waitingAnswers), ToClose: len(s.toClose), Interval: s.clock.interval,
	}
	if s.directs != nil {
		h.Directs = len(s.directs.all)
	}
	for _, l := range s.directs.lanes() {
		h.DirectsWaiting += len(l.waiting)
	}
	for _, res := range s.resources {
		h.Cursors += len(res.cursors)
		h.Marked += len(res.marked)
		h.StreamWatches += res.rounds.watches
		h.Interests += res.dispatcher.Interests()
		for _, c := range res.cursors {
			h.SharedLists += len(c.group.shared)
			if c.delayed > 0 {
				h.Delayed++
			}
		}
	}
	h.Due = len(s.clock.due) - h.Delayed
	return h
}
