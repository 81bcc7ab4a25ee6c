package direct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// catchUp returns the next message of a catch-up. If the store is away, it changes nothing
// and can be called again.
func (r *Reader) catchUp(ctx context.Context) (feed.Message, error) {
	if r.step == listing {
		return r.list(ctx)
	}
	asked := time.Now()
	at, err := r.source.Position(ctx, 0)
	if err != nil {
		return feed.Message{}, err
	}
	r.asOf = asked
	if r.step == beginResume {
		ok, err := r.replayable(ctx, at)
		if err != nil {
			return feed.Message{}, err
		}
		if ok {
			r.replayEnd = at.Revision
			r.startTail(replaying, time.Time{})
			return r.catchUpBegin(object.Replay), nil
		}
	}
	return r.reset(ctx, at)
}

func (r *Reader) catchUpBegin(kind object.CatchUpKind) feed.Message {
	m := r.message(object.CatchUpBegin, nil, 0)
	m.Header.CatchUp = kind
	return m
}

// replayable reports whether the store still has the changes after the position and the
// objects before them, and can send them. If not and the watch wants every event, replayable
// returns the error that ends the watch.
func (r *Reader) replayable(ctx context.Context, at object.Position) (bool, error) {
	switch {
	case r.after == 0:
		return false, nil
	case r.epoch == at.Epoch && r.unreadable:
		if r.options.EveryEvent {
			return false, &catchup.LostError{Asked: r.after, Oldest: at.Revision, Current: at.Revision}
		}
		return false, nil
	case r.epoch == at.Epoch && r.after <= at.Revision:
		_, _, err := r.source.cfg.Store.List(ctx, r.after, r.interest.Scope, "", 1)
		if err == nil || !errors.Is(err, object.ErrCompacted) {
			return err == nil, err
		}
		if r.options.EveryEvent {
			return false, r.lostError(ctx, r.after, at)
		}
		return false, nil
	case r.options.EveryEvent:
		return false, &catchup.EpochError{Asked: r.epoch, Current: at}
	}
	return false, nil
}

// lostError returns the error for a revision that the store has forgotten.
func (r *Reader) lostError(ctx context.Context, asked object.Revision, at object.Position) error {
	oldest, err := r.source.cfg.Store.Oldest(ctx, asked, at.Revision)
	if err != nil {
		return err
	}
	return &catchup.LostError{Asked: asked, Oldest: oldest, Current: at.Revision}
}

// maxExpiredSnapshots is how many snapshots in a row the store may forget before the
// reader has read them. A client that reads more slowly than that would receive snapshots
// for ever and never be in sync.
const maxExpiredSnapshots = 3

// reset announces a snapshot. It reads the first page before, so it announces no snapshot
// that the store has already forgotten.
func (r *Reader) reset(ctx context.Context, at object.Position) (feed.Message, error) {
	if r.expiredSnapshots == maxExpiredSnapshots {
		return feed.Message{}, r.lostError(ctx, r.page.at, at)
	}
	p := page{at: at.Revision, scope: r.interest.Scope, forWatch: true}
	if r.exact > 0 {
		p.at = r.exact
	}
	switch err := r.source.nextPage(ctx, &p); {
	case errors.Is(err, object.ErrCompacted) && r.exact > 0:
		return feed.Message{}, r.lostError(ctx, r.exact, at)
	case errors.Is(err, object.ErrCompacted):
		// Compacted a moment ago; the next attempt lists a newer revision.
		return feed.Message{}, fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	case err != nil:
		return feed.Message{}, err
	}
	r.page, r.epoch, r.after, r.unreadable = p, r.source.servedEpoch(storeEpoch(at.Epoch)), 0, false
	r.step = listing
	return r.catchUpBegin(object.Reset), nil
}

// list returns the next part of the snapshot, or its end.
func (r *Reader) list(ctx context.Context) (feed.Message, error) {
	var events [][]byte
	size := 0
	for {
		for len(r.page.objects) > 0 {
			o := r.page.objects[0]
			if r.interest.Picks(o) {
				event := r.source.cfg.Encoder.AddedEvent(o, r.interest.Projection)
				if len(events) > 0 && size+len(event) > r.source.cfg.MessageBytes {
					return r.message(object.CatchUpPart, events, len(events)), nil
				}
				events = append(events, event)
				size += len(event)
			}
			r.page.objects[0], r.page.objects = nil, r.page.objects[1:]
		}
		if len(events) > 0 {
			return r.message(object.CatchUpPart, events, len(events)), nil
		}
		if !r.page.more {
			break
		}
		switch err := r.source.nextPage(ctx, &r.page); {
		case errors.Is(err, object.ErrCompacted):
			r.step = beginReset
			r.expiredSnapshots++
			return r.catchUp(ctx)
		case err != nil:
			return feed.Message{}, err
		case r.page.lacksKey && r.source.servedEpoch(storeEpoch(r.epoch)) != r.epoch:
			r.step = beginReset
			return r.catchUp(ctx)
		}
	}
	r.after = r.page.at
	r.page, r.exact, r.expiredSnapshots = page{}, 0, 0
	r.startTail(live, r.asOf)
	return r.message(object.Synced, nil, 0), nil
}
