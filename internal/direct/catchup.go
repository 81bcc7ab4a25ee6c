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
func (w *Watcher) catchUp(ctx context.Context) (feed.Message, error) {
	if w.step == listing {
		return w.list(ctx)
	}
	asked := time.Now()
	at, err := w.source.Position(ctx, 0)
	if err != nil {
		return feed.Message{}, err
	}
	w.asOf = asked
	if w.step == beginResume {
		ok, err := w.replayable(ctx, at)
		if err != nil {
			return feed.Message{}, err
		}
		if ok {
			w.replayEnd = at.Revision
			w.startTail(replaying, time.Time{})
			return w.catchUpBegin(object.Replay), nil
		}
	}
	return w.reset(ctx, at)
}

func (w *Watcher) catchUpBegin(kind object.CatchUpKind) feed.Message {
	m := w.message(object.CatchUpBegin, nil, 0)
	m.Header.CatchUp = kind
	return m
}

// replayable reports whether the store still has the changes after the cursor and the
// objects before them, and can send them. If not and the watcher wants every event, replayable
// returns the error that ends the watch.
func (w *Watcher) replayable(ctx context.Context, at object.Position) (bool, error) {
	switch {
	case w.cursor == 0:
		return false, nil
	case w.epoch == at.Epoch && w.unreadable:
		if w.options.EveryEvent {
			return false, &catchup.LostError{Asked: w.cursor, Oldest: at.Revision, Current: at.Revision}
		}
		return false, nil
	case w.epoch == at.Epoch && w.cursor <= at.Revision:
		_, _, err := w.source.cfg.Store.List(ctx, w.cursor, w.interest.Scope, "", 1)
		if err == nil || !errors.Is(err, object.ErrCompacted) {
			return err == nil, err
		}
		if w.options.EveryEvent {
			return false, w.lostError(ctx, w.cursor, at)
		}
		return false, nil
	case w.options.EveryEvent:
		return false, &catchup.EpochError{Asked: w.epoch, Current: at}
	}
	return false, nil
}

// lostError returns the error for a revision that the store has forgotten.
func (w *Watcher) lostError(ctx context.Context, asked object.Revision, at object.Position) error {
	oldest, err := w.source.cfg.Store.Oldest(ctx, asked, at.Revision)
	if err != nil {
		return err
	}
	return &catchup.LostError{Asked: asked, Oldest: oldest, Current: at.Revision}
}

// maxExpiredSnapshots is how many snapshots in a row the store may forget before the
// watcher has read them. A client that reads more slowly than that would receive snapshots
// for ever and never be in sync.
const maxExpiredSnapshots = 3

// reset announces a snapshot. It reads the first page before, so it announces no snapshot
// that the store has already forgotten.
func (w *Watcher) reset(ctx context.Context, at object.Position) (feed.Message, error) {
	if w.expiredSnapshots == maxExpiredSnapshots {
		return feed.Message{}, w.lostError(ctx, w.page.at, at)
	}
	p := page{at: at.Revision, scope: w.interest.Scope, forWatch: true}
	if w.exact > 0 {
		p.at = w.exact
	}
	switch err := w.source.nextPage(ctx, &p); {
	case errors.Is(err, object.ErrCompacted) && w.exact > 0:
		return feed.Message{}, w.lostError(ctx, w.exact, at)
	case errors.Is(err, object.ErrCompacted):
		// Compacted a moment ago; the next attempt lists a newer revision.
		return feed.Message{}, fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	case err != nil:
		return feed.Message{}, err
	}
	w.page, w.epoch, w.cursor, w.unreadable = p, w.source.servedEpoch(storeEpoch(at.Epoch)), 0, false
	w.step = listing
	return w.catchUpBegin(object.Reset), nil
}

// list returns the next part of the snapshot, or its end.
func (w *Watcher) list(ctx context.Context) (feed.Message, error) {
	var events [][]byte
	size := 0
	for {
		for len(w.page.objects) > 0 {
			o := w.page.objects[0]
			if w.interest.Picks(o) {
				event := w.source.cfg.Encoder.AddedEvent(o, w.interest.Projection)
				if len(events) > 0 && size+len(event) > w.source.cfg.MessageBytes {
					return w.message(object.CatchUpPart, events, len(events)), nil
				}
				events = append(events, event)
				size += len(event)
			}
			w.page.objects[0], w.page.objects = nil, w.page.objects[1:]
		}
		if len(events) > 0 {
			return w.message(object.CatchUpPart, events, len(events)), nil
		}
		if !w.page.more {
			break
		}
		switch err := w.source.nextPage(ctx, &w.page); {
		case errors.Is(err, object.ErrCompacted):
			w.step = beginReset
			w.expiredSnapshots++
			return w.catchUp(ctx)
		case err != nil:
			return feed.Message{}, err
		case w.page.lacksKey && w.source.servedEpoch(storeEpoch(w.epoch)) != w.epoch:
			w.step = beginReset
			return w.catchUp(ctx)
		}
	}
	w.cursor = w.page.at
	w.page, w.exact, w.expiredSnapshots = page{}, 0, 0
	w.startTail(live, w.asOf)
	return w.message(object.Synced, nil, 0), nil
}
