package catchup

import (
	"fmt"
	"math"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/dispatch/parts"
	"github.com/fanoutd/fanoutd/internal/object"
)

// LostError means that a revision is not available. Either a watch with EveryEvent cannot
// have all events after its position, or there is no snapshot at the exact revision that a
// watch asked for.
type LostError struct {
	Asked   object.Revision // the position, or the exact revision
	Oldest  object.Revision // all events after this revision are available
	Current object.Revision
}

func (e *LostError) Error() string {
	return fmt.Sprintf("revision %d is not available: the oldest is %d, the newest %d", e.Asked, e.Oldest, e.Current)
}

// EpochError means that the position of a watch with EveryEvent belongs to another epoch.
type EpochError struct {
	Asked   object.Epoch
	Current object.Position
}

func (e *EpochError) Error() string {
	return fmt.Sprintf("the epoch is now %s, not %s: positions of the old epoch are no longer valid", e.Current.Epoch, e.Asked)
}

// catchUp is a catch-up that is under way. Between two messages, its only reference to a
// cacher.State is in a [parts.RetainedState], and that state may be dropped. Otherwise a
// client that does not read would keep the state in memory.
type catchUp struct {
	kind  object.CatchUpKind
	since object.Revision // DELTA: Reader.After when the catch-up began; otherwise 0
	to    object.Revision // the revision to which the catch-up leads; RESET: the revision of the snapshot
	asOf  time.Time       // after the catch-up, the client has everything that the store had at this time

	// A REPLAY does not use the fields below.

	small        bool                 // the catch-up is a DELTA of one part, not larger than smallDelta
	first        *parts.Part          // the first part, made before the catch-up was announced; nil: already sent, or there is none
	state        *parts.RetainedState // the state for the remaining parts; nil: no further part has to be made
	next         parts.Start          // where the next part begins
	allPartsSent bool                 // the next message is SYNCED
}

// smallDelta is the largest size of a DELTA that needs no slot. After a relist, all
// watches get a DELTA at once, and most of these DELTAs are empty or small. A small DELTA
// costs no more than a live message.
const smallDelta = 16 << 10

// startCatchUp chooses how to bring the reader up to date, and returns the message that
// announces the catch-up.
func (r *Reader) startCatchUp() (feed.Message, error) {
	d := r.Feed.Feeds
	asOf := d.Config.Source.Confirmed() // read before the state, so the state has at least everything from that time
	newest := d.Config.Source.State()
	kind, err := r.MoveToCatchUp(newest)
	if err != nil {
		return feed.Message{}, err
	}
	c := &catchUp{kind: kind, to: newest.Revision(), asOf: asOf}
	if kind == object.Delta {
		c.since = r.After
	}
	if kind.TransfersState() {
		state := r.target(newest)
		c.to = state.Revision()
		if kind == object.Reset && r.Exact > 0 {
			c.to = r.Exact
		}
		// Most catch-ups have one part and need no retained state.
		first := r.part(c, state)
		c.small = kind == object.Delta && first.IsLast && first.End.Bytes <= smallDelta
		switch {
		case !first.IsLast:
			c.first, c.state = &first, d.Retained.Take(state)
		case len(first.Pieces) > 0:
			c.first = &first
		default:
			c.allPartsSent = true // there are no parts
		}
	}
	r.AbandonCatchUp()
	r.catchUp, r.Step = c, StepCatchUp
	return r.CatchUpBegin(kind), nil
}

// MoveToCatchUp chooses a catch-up that leads to the state, and moves the reader to its beginning.
func (r *Reader) MoveToCatchUp(newest *cacher.State) (object.CatchUpKind, error) {
	if r.Step == StepBehind {
		r.After = r.Feed.View.Load().SkipDropped(r.At()).Revision
	}
	kind, err := r.chooseCatchUp(newest)
	if err != nil {
		return 0, err
	}
	if kind == object.Reset {
		if epoch := newest.Position().Epoch; r.Epoch != epoch {
			if r.Epoch != "" {
				// r.Needed is a revision of the old epoch and no longer applies. An exact
				// snapshot still needs a state at its revision or later.
				r.Needed = r.Exact
				if r.Step == StepResume { // the watch begins with a position of another epoch
					r.Needed = max(r.Needed, r.Feed.ChangedAt())
				}
			}
			r.Epoch = epoch
		}
		r.After = 0
	}
	r.Skip, r.MergeTo = 0, 0
	return kind, nil
}

// CatchUpBegin returns the message that announces a catch-up.
func (r *Reader) CatchUpBegin(kind object.CatchUpKind) feed.Message {
	m := r.message(object.CatchUpBegin, parts.Part{})
	m.Header.CatchUp = kind
	return m
}

// WholeReplay returns the messages of a REPLAY up to a revision, with its events, if there are any, in one
// message. The log must have all of them. Afterwards, the client has everything that the store had at
// the time asOf.
func (r *Reader) WholeReplay(v *feed.View, to object.Revision, asOf time.Time) []feed.Message {
	pieces, end, _ := v.Read(r.After, 0, math.MaxInt, to)
	return r.replay(parts.Part{Pieces: pieces, End: end}, to, asOf)
}

// EmptyReplay is like WholeReplay, if there are no events up to the revision.
func (r *Reader) EmptyReplay(to object.Revision, asOf time.Time) []feed.Message {
	return r.replay(parts.Part{}, to, asOf)
}

func (r *Reader) replay(p parts.Part, to object.Revision, asOf time.Time) []feed.Message {
	r.Skip, r.catchUp = 0, &catchUp{kind: object.Replay, to: to, asOf: asOf}
	all := []feed.Message{r.CatchUpBegin(object.Replay)}
	if p.End.Taken > 0 {
		r.After = p.End.UpTo
		all = append(all, r.message(object.CatchUpPart, p))
	}
	r.After = to
	return append(all, r.Synced())
}

// target returns the state to which a RESET or a DELTA leads. This is the state that the
// readers of the same interest share, or the newest one. target also sets Needed to the
// revision of the state. If the catch-up starts over, it then leads to no older state.
//
// If the reader starts over because its state was dropped, target prefers the oldest
// retained state that is new enough. Otherwise a newer state might have to be retained, and
// to drop a state of other watches for it.
func (r *Reader) target(newest *cacher.State) *cacher.State {
	d := r.Feed.Feeds
	needed := max(r.Needed, r.After)
	if r.catchUp != nil && r.catchUp.kind.TransfersState() {
		s := d.Retained.Oldest(newest.Position().Epoch, needed)
		// After the catch-up, the reader must be able to continue from this state, either
		// with the changes of the window or with a DELTA.
		if s != nil && (newest.CanReplay(s.Position()) || !r.EveryEvent && newest.HasDelta(s.Revision())) {
			r.Needed = s.Revision()
			return s
		}
	}
	s := r.Feed.CatchUps.SharedState(newest, max(needed, newest.Replayable()), &d.CatchUps)
	d.Remember(r.Feed)
	r.Needed = s.Revision()
	return s
}

// AbandonCatchUp ends the catch-up that is under way, if there is one.
func (r *Reader) AbandonCatchUp() {
	if r.catchUp != nil {
		r.Feed.Feeds.Retained.Release(r.catchUp.state)
		r.catchUp = nil
	}
}

// chooseCatchUp returns the cheapest kind of catch-up that leads to the given state. If the
// reader cannot have the events or the snapshot that it asked for, chooseCatchUp returns a
// [*LostError] or an [*EpochError].
func (r *Reader) chooseCatchUp(s *cacher.State) (object.CatchUpKind, error) {
	epoch := s.Position().Epoch
	switch {
	case r.Exact > 0 && (r.Exact < s.Replayable() || r.Exact > s.Revision()): // the revision is too old, or it belongs to another epoch
		return 0, &LostError{Asked: r.Exact, Oldest: s.Replayable(), Current: s.Revision()}
	case r.After == 0:
		return object.Reset, nil
	case r.Epoch != epoch && r.EveryEvent:
		return 0, &EpochError{Asked: r.Epoch, Current: s.Position()}
	case r.Epoch != epoch:
		return object.Reset, nil
	case r.Step == StepResume && s.CanReplay(r.At()):
		return object.Replay, nil
	case r.EveryEvent:
		return 0, &LostError{Asked: r.After, Oldest: s.Replayable(), Current: s.Revision()}
	case s.HasDelta(r.After):
		return object.Delta, nil
	}
	return object.Reset, nil
}

// catchUpPart returns the next part of the catch-up that is under way. A part without events means
// that SYNCED comes next, and a lost one that the catch-up cannot continue and has to start over.
func (r *Reader) catchUpPart() parts.Part {
	c := r.catchUp
	if !c.kind.TransfersState() {
		return r.events()
	}
	if !c.allPartsSent {
		p := c.first
		if c.first = nil; p == nil {
			state := r.catchUpState()
			if state == nil {
				return parts.Part{Lost: true}
			}
			p = new(r.part(c, state))
		}
		if c.next, c.allPartsSent = p.Next, p.IsLast; c.allPartsSent {
			r.Feed.Feeds.Retained.Release(c.state)
			c.state = nil
		}
		if len(p.Pieces) > 0 {
			return *p
		}
	}
	r.After = c.to
	if c.kind == object.Reset && r.Exact == 0 {
		// The state may be older than the newest one, if nothing has changed for the interest.
		r.After = r.Feed.CompleteAfter(r.At()).Revision
	}
	return parts.Part{}
}

// Synced ends a catch-up after its last part, and returns SYNCED. Events are live from now on.
func (r *Reader) Synced() feed.Message {
	age := feed.StatedAge(r.catchUp.asOf, time.Now())
	r.catchUp, r.Exact = nil, 0
	r.Step = StepLive
	m := r.message(object.Synced, parts.Part{})
	m.Header.Age = age
	return m
}

// TransfersState reports whether a catch-up that sends a state is under way.
func (r *Reader) TransfersState() bool { return r.catchUp != nil && r.catchUp.kind.TransfersState() }

// HoldsPart reports whether the first part of a catch-up was made and not sent.
func (r *Reader) HoldsPart() bool { return r.catchUp != nil && r.catchUp.first != nil }

// SyncedIsNext reports whether nothing of the catch-up is left but SYNCED.
func (r *Reader) SyncedIsNext() bool {
	switch c := r.catchUp; {
	case c == nil:
		return false
	case c.kind.TransfersState():
		return c.allPartsSent
	default:
		return r.Skip == 0 && r.MergeTo == 0 && r.After >= c.to
	}
}

// NeedsSlot reports whether the next message is a part of a RESET or a DELTA, unless the DELTA
// is small. SYNCED needs no slot.
func (r *Reader) NeedsSlot() bool {
	switch r.Step {
	case StepSnapshot:
		return true
	case StepCatchUp:
		c := r.catchUp
		return c.kind.TransfersState() && !c.allPartsSent && !c.small
	}
	return false
}

// catchUpState returns a state from which the next part can be made, or nil if there is none.
// If the retained state was dropped, a RESET continues from the newest state, as long as the
// window reaches back to the revision of the snapshot.
func (r *Reader) catchUpState() *cacher.State {
	c := r.catchUp
	if s := r.Feed.Feeds.Retained.Use(c.state); s != nil {
		return s
	}
	s := r.Feed.Feeds.Config.Source.State()
	if c.kind == object.Reset && s.Position().Epoch == r.Epoch && c.to >= s.Replayable() {
		return s
	}
	return nil
}

// part returns the next part of a RESET or a DELTA. Readers that need the same part share
// it.
func (r *Reader) part(c *catchUp, s *cacher.State) parts.Part {
	var makePart func(*catchUp, *cacher.State) parts.Part
	switch c.kind {
	case object.Reset:
		makePart = r.resetPart
	case object.Delta:
		makePart = r.deltaPart
	default:
		panic(fmt.Sprintf("a catch-up of kind %v has no parts that are made from a state", c.kind))
	}
	key := parts.Key{Kind: c.kind, Since: c.since, To: c.to, Start: c.next}
	return r.Feed.CatchUps.Part(s, key, &r.Feed.Feeds.CatchUps, func() (p parts.Part) {
		r.Feed.Feeds.Config.Turns.Do(func() { p = makePart(c, s) })
		return p
	})
}

// resetPart makes a part of a snapshot.
func (r *Reader) resetPart(c *catchUp, s *cacher.State) parts.Part {
	interest := &r.Feed.Interest
	p := parts.Part{Next: c.next, IsLast: true, End: parts.Cut{Limit: r.Feed.Feeds.Config.MessageBytes}}
	objects, _ := s.ObjectsAt(c.to, interest.Scope, c.next.Key)
	var last object.Key
	for o := range objects {
		if !interest.Picks(o) {
			continue
		}
		event := r.Feed.Feeds.Config.Encoder.AddedEvent(o, interest.Projection)
		if !p.End.TakeAlone(len(event)) {
			p.IsLast = false
			break
		}
		p.Pieces = append(p.Pieces, event)
		last = o.Key
	}
	if len(p.Pieces) > 0 {
		p.Next.Key = last + "\x00"
	}
	return p
}

// deltaPart makes a part of the difference between two revisions.
func (r *Reader) deltaPart(c *catchUp, s *cacher.State) parts.Part {
	interest := &r.Feed.Interest
	p := parts.Part{Next: c.next, IsLast: true, End: parts.Cut{Limit: r.Feed.Feeds.Config.MessageBytes}}
	for d := range s.Since(c.since, interest.Scope, c.next.ChangeID) {
		e := interest.SeeDifference(d, c.since)
		var event []byte
		if e.Type == object.Added {
			event = r.Feed.Feeds.Config.Encoder.AddedEvent(e.Object, interest.Projection)
		} else {
			event = r.Feed.Feeds.Config.Encoder.AppendEvent(nil, e, interest.Projection)
		}
		if !p.End.TakeAlone(len(event)) {
			p.IsLast = false
			break
		}
		p.Pieces = append(p.Pieces, event)
		p.Next.ChangeID = d.ChangeID
	}
	return p
}
