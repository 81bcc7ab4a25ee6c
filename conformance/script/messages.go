package script

import (
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Message is a message of a watch.
type Message = *fanoutv1.WatchResponse

// begin returns the first message of a catch-up.
func begin(kind fanoutv1.WatchResponse_CatchUp, at *fanoutv1.Position) Message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN, CatchUp: kind, Position: at}
}

// part returns a part of a catch-up.
func part(at *fanoutv1.Position, events ...*fanoutv1.Event) Message {
	return &fanoutv1.WatchResponse{Kind: fanoutv1.WatchResponse_KIND_CATCH_UP_PART, Position: at, Events: events}
}

func bare(kind fanoutv1.WatchResponse_Kind, at *fanoutv1.Position) Message {
	return &fanoutv1.WatchResponse{Kind: kind, Position: at}
}

// Reset returns the messages of a RESET, with one object in each part.
func (h *History) Reset(watch string, revision int64) []Message {
	all := []Message{begin(fanoutv1.WatchResponse_CATCH_UP_RESET, h.Position(0))}
	for _, e := range h.Snapshot(watch, revision) {
		all = append(all, part(h.Position(0), e))
	}
	return append(all, h.Synced(revision))
}

// Replay returns the messages of a REPLAY, with one revision in each part.
func (h *History) Replay(watch string, after, to int64) []Message {
	all := []Message{begin(fanoutv1.WatchResponse_CATCH_UP_REPLAY, h.Position(after))}
	for revision := after + 1; revision <= to; revision++ {
		if events := h.Events(watch, revision-1, revision); len(events) > 0 {
			all = append(all, part(h.Position(revision), events...))
		}
	}
	return append(all, h.Synced(to))
}

// Delta returns the messages of a DELTA, with one object in each part.
func (h *History) Delta(watch string, after, to int64) []Message {
	all := []Message{begin(fanoutv1.WatchResponse_CATCH_UP_DELTA, h.Position(after))}
	for _, e := range h.Difference(watch, after, to) {
		all = append(all, part(h.Position(after), e))
	}
	return append(all, h.Synced(to))
}

// From returns the catch-up of an honest server from a position to the present: a REPLAY, or a RESET.
func (h *History) From(watch string, after *fanoutv1.Position) []Message {
	if after.GetRevision() > 0 && after.GetEpoch() == h.epoch {
		return h.Replay(watch, after.GetRevision(), h.Revision())
	}
	return h.Reset(watch, h.Revision())
}

// Live returns a message with the events of a revision.
func (h *History) Live(watch string, revision int64) Message {
	return &fanoutv1.WatchResponse{
		Kind: fanoutv1.WatchResponse_KIND_LIVE, Position: h.Position(revision), Events: h.Events(watch, revision-1, revision),
	}
}

// Split returns a message as partial messages of one event each. The position stays before all of them
// until the last one.
func Split(m Message, before *fanoutv1.Position) []Message {
	var all []Message
	for i, e := range m.GetEvents() {
		p := proto.CloneOf(m)
		p.Events = []*fanoutv1.Event{e}
		if i < len(m.GetEvents())-1 {
			p.Partial, p.Position = true, before
		}
		all = append(all, p)
	}
	return all
}

// Synced returns the end of a catch-up.
func (h *History) Synced(revision int64) Message {
	return bare(fanoutv1.WatchResponse_KIND_SYNCED, h.Position(revision))
}

// Bookmark returns a bookmark.
func (h *History) Bookmark(revision int64) Message {
	return bare(fanoutv1.WatchResponse_KIND_BOOKMARK, h.Position(revision))
}

// Draining returns the last message of a server that is about to end the stream.
func (h *History) Draining(revision int64, resumeAtOnce bool) Message {
	m := bare(fanoutv1.WatchResponse_KIND_DRAINING, h.Position(revision))
	m.ResumeAtOnce = resumeAtOnce
	return m
}

// WithAge sets the age of a message.
func WithAge(m Message, age time.Duration) Message {
	m.Age = durationpb.New(age)
	return m
}
