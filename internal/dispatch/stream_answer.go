package dispatch

import (
	"context"
	"slices"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Ending is how a watch ends.
type Ending struct {
	Reason       error // of the entry with Ended; nil: OK
	Last         bool  // a message of kind DRAINING, with the position to resume from, precedes it in the same response
	ResumeAtOnce bool  // see object.Header.ResumeAtOnce
	Deny         bool  // after the call, the watch gets nothing but the entry with Ended; with Last false
}

// isFailure reports whether the watch cannot go on. Otherwise somebody has ended it.
func (e *Ending) isFailure() bool { return e.Reason != nil && !e.Last && !e.Deny }

// answer is a refusal, or the end of a watch, that waits to be sent.
type answer struct {
	id      uint64 // of a refused start
	refused error  // nil: the watch has ended

	watch      *StreamWatch
	ending     *Ending
	unbegun    bool // see Entry.Unbegun
	dispatcher *Dispatcher
	position   object.Position // with Ending.Last: from which the client can resume
}

// answerCount counts the answers that were not sent yet.
type answerCount struct {
	waiting int
	fewer   chan struct{} // closed when there are fewer; nil: nobody waits
}

func (a *answerCount) remove(n int) {
	a.waiting -= n
	if n > 0 && a.fewer != nil {
		close(a.fewer)
		a.fewer = nil
	}
}

// AwaitAnswers waits until fewer than n answers wait. It returns ctx.Err() if ctx ends first, and
// [context.Canceled] if the stream ends first.
func (s *Stream) AwaitAnswers(ctx context.Context, n int) error {
	for {
		s.mu.Lock()
		switch {
		case s.ended:
			s.mu.Unlock()
			return context.Canceled
		case s.answers.waiting < n:
			s.mu.Unlock()
			return nil
		}
		if s.answers.fewer == nil {
			s.answers.fewer = make(chan struct{})
		}
		fewer, ended := s.answers.fewer, s.contextLocked()
		s.mu.Unlock()
		select {
		case <-fewer:
		case <-ended.Done():
			return ended.Err()
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// endCursor ends all watches of a cursor. The worker calls it.
func (s *Stream) endCursor(c *cursor, e *Ending) {
	for _, w := range slices.Clone(c.watches) {
		s.endNow(w, e)
	}
}

// endNow ends a watch that is not ending yet. The worker calls it.
func (s *Stream) endNow(w *StreamWatch, e *Ending) {
	if w.beginEnding() {
		s.mu.Lock()
		s.answers.waiting++
		s.mu.Unlock()
		s.end(w, e)
	}
}

// end ends a watch, whose answer is counted already. The worker calls it.
func (s *Stream) end(w *StreamWatch, e *Ending) {
	a := answer{watch: w, ending: e}
	if c := w.cursor.Load(); c != nil {
		if s.endDirect(c, e, func() { s.end(w, e) }) {
			return
		}
		a.dispatcher = c.dispatcher()
		a.unbegun = e.isFailure() && (!c.spoke || w.joining)
		if e.Last {
			a.position = c.position()
		}
		c.removeWatch(w)
		w.leave(c)
		s.watches--
		if len(c.watches) == 0 {
			s.closeCursor(c)
		}
	}
	if s.solo {
		s.finishing, s.soloEnd = true, e.Reason
	}
	w.life.Store(watchEnded)
	s.clock.due.remove(w.due)
	s.waitingAnswers = append(s.waitingAnswers, a)
}

// leave keeps the status of a watch that has ended, while other watches go on with the cursor.
func (w *StreamWatch) leave(c *cursor) {
	s := c.stream
	s.mu.Lock()
	defer s.mu.Unlock()
	w.cursor.Store(&cursor{
		stream: s, sentPosition: c.sentPosition, isSending: c.isSending, mayHave: c.mayHave, messages: c.messages, bytes: c.bytes, syncedSent: true,
	})
}

// closeCursor ends the use of a cursor. Serve closes it.
func (s *Stream) closeCursor(c *cursor) {
	switch {
	case c.state == cursorClosed:
		return
	case c.direct != nil:
		s.closeDirect(c)
		return
	}
	inQueue := c.state == cursorCatchesUp
	c.state = cursorClosed
	c.resource.remove(c)
	s.clock.due.remove(c.due)
	s.clock.due.remove(c.delayed)
	c.unshare()
	if s.latest == c {
		s.latest = nil
	}
	s.mu.Lock()
	// Serve closes a cursor that it owns when it gives the cursor back.
	if !inQueue || s.catchUps.removeLocked(c) {
		s.toClose = append(s.toClose, c)
	}
	s.mu.Unlock()
	s.signal()
}

// addAnswers adds the waiting answers to the response, as far as they fit.
func (s *Stream) addAnswers() {
	n := 0
	for n < len(s.waitingAnswers) && (n == 0 || s.room() > 0) {
		if a := &s.waitingAnswers[n]; a.refused != nil {
			s.add(Entry{IDs: &IDs{all: []uint64{a.id}}, Refused: a.refused}, 0)
			n++
			continue
		}
		n += s.addEnds(s.waitingAnswers[n:])
	}
	clear(s.waitingAnswers[:n])
	if s.waitingAnswers = s.waitingAnswers[n:]; len(s.waitingAnswers) == 0 {
		s.waitingAnswers = nil
	}
}

// addEnds adds the first of the ends, and those after it that share its Ending. Watches with the
// same position share their DRAINING. It returns the number of ends.
func (s *Stream) addEnds(ends []answer) int {
	type last struct {
		dispatcher *Dispatcher
		position   object.Position
	}
	var order []last
	drained := map[last][]*StreamWatch{}
	var dispatchers []*Dispatcher
	ended := map[*Dispatcher][]*StreamWatch{}
	first, unbegun := ends[0].ending, ends[0].unbegun
	room := s.room()
	n := 0
	for ; n < len(ends) && ends[n].ending == first && ends[n].unbegun == unbegun && (n == 0 || room > 0); n++ {
		a := &ends[n]
		room -= 2 * idBytes
		if first.Last {
			l := last{a.dispatcher, a.position}
			if drained[l] == nil {
				order = append(order, l)
				room -= entryBytes
			}
			drained[l] = append(drained[l], a.watch)
		}
		if ended[a.dispatcher] == nil {
			dispatchers = append(dispatchers, a.dispatcher)
			room -= entryBytes
		}
		ended[a.dispatcher] = append(ended[a.dispatcher], a.watch)
	}
	for _, l := range order {
		h := object.Header{Kind: object.Draining, Position: l.position, ResumeAtOnce: first.ResumeAtOnce}
		s.add(Entry{IDs: idsOf(drained[l]), Dispatcher: l.dispatcher, Batch: &feed.Batch{Message: feed.Message{Header: h}}}, 0)
	}
	for _, d := range dispatchers {
		s.add(Entry{IDs: idsOf(ended[d]), Dispatcher: d, Watches: ended[d], Ended: first, Unbegun: unbegun}, 0)
	}
	return n
}
