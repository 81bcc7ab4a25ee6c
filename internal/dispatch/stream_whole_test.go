package dispatch_test

import (
	"fmt"
	"strings"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// missing returns the events that a subscriber at a revision still has to get, up to another one.
func (n *naiveHistory) missing(s *subscriber, at, upTo object.Revision) []check.Event {
	events := n.events(&s.asked, at, upTo)
	if s.asked.Latest && len(events) > 0 {
		events = merge(events, n.state(&s.asked, at), false, func(pair) {})
	}
	return events
}

// cancelled reports whether the merged events of a subscriber at a revision cancel each other out, up
// to a revision between two others.
func (n *naiveHistory) cancelled(s *subscriber, at, from, to object.Revision) bool {
	for upTo := from; s.asked.Latest && upTo <= to; upTo++ {
		if len(n.missing(s, at, upTo)) == 0 {
			return true
		}
	}
	return false
}

// liveWatch is a watch that is live, as far as its client knows.
type liveWatch struct {
	at    object.Position // of the last message
	owes  object.Revision // the stream has sent events of this revision to another watch, and not those of this one; 0: none
	owed  check.Event     // an event of this revision or an earlier one
	ready bool            // was live before the present sequence began
}

// wholeRevisions checks that the events of one revision leave a stream together. A sequence is a
// response, with those that follow if it has More. If a sequence brings a live event of a revision,
// every watch that was live before has all its events up to this revision at the end of the
// sequence, or its catch-up has begun, or it has ended.
func wholeRevisions(log []loggedResponse, histories map[object.Epoch]*naiveHistory, seen counts) error {
	live := map[*modelWatch]*liveWatch{}
	begun := map[*modelWatch]bool{}                  // had a message
	last := map[*dispatch.Dispatcher]check.Message{} // with the latest live event of the sequence
	for i, r := range log {
		for _, e := range r.entries {
			var newest object.Revision
			for _, event := range e.message.Events {
				newest = max(newest, event.Revision)
			}
			for _, w := range e.watches {
				l := live[w]
				switch e.message.Kind {
				case 0, object.Draining, object.CatchUpBegin:
					delete(live, w)
				case object.Synced:
					live[w] = &liveWatch{at: e.message.Position}
				case object.Bookmark:
					if !begun[w] {
						live[w] = &liveWatch{at: e.message.Position}
					}
				}
				begun[w] = true
				if l == nil || live[w] != l && (e.message.Kind != object.CatchUpBegin || w.of.asked.Latest) {
					continue
				}
				if l.owes > 0 && !histories[l.at.Epoch].cancelled(w.of.subscriber, l.at.Revision, l.owes, e.message.Position.Revision) {
					return fmt.Errorf("%s: response %d is live, but %v is missing, although another watch has got revision %d\n%s", w.of.asked.Watcher, i, &l.owed, l.owes, text(log[max(0, i-10):i+1]))
				}
				if live[w] != l {
					continue
				}
				l.at, l.owes = e.message.Position, 0
				if newest > 0 && l.ready && w.of.options.BatchDelay == 0 && newest >= last[w.source].Position.Revision {
					if newest == last[w.source].Position.Revision && len(e.message.Events) > 0 {
						seen["several watches at one revision"]++
					}
					m := e.message
					m.Position = object.Position{Epoch: m.Position.Epoch, Revision: newest}
					last[w.source] = m
				}
			}
		}
		if r.more {
			continue
		}
		for w, l := range live {
			m, ok := last[w.source]
			if ok && l.ready && w.of.options.BatchDelay == 0 && m.Position.Epoch == l.at.Epoch && l.at.Revision < m.Position.Revision {
				if missing := histories[l.at.Epoch].missing(w.of.subscriber, l.at.Revision, m.Position.Revision); len(missing) > 0 && l.owes == 0 {
					l.owes, l.owed = m.Position.Revision, missing[0]
				}
			}
			l.ready = true
		}
		clear(last)
	}
	return nil
}

// text returns responses, one line for each entry.
func text(log []loggedResponse) string {
	var b strings.Builder
	for i, r := range log {
		for _, e := range r.entries {
			fmt.Fprintf(&b, "%d (more %v)", i, r.more)
			for _, w := range e.watches {
				fmt.Fprintf(&b, " %s", w.of.asked.Watcher)
			}
			fmt.Fprintf(&b, ": kind %v, partial %v,", e.message.Kind, e.message.Partial)
			for j := range e.message.Events {
				fmt.Fprintf(&b, " %v", &e.message.Events[j])
			}
			fmt.Fprintf(&b, " -> %v\n", e.message.Position)
		}
	}
	return b.String()
}
