package direct

import (
	"context"
	"errors"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// catchUp returns the next message on the way to the present. Where the store is
// away, nothing has changed and it can be called again.
func (w *Watcher) catchUp(ctx context.Context) (dispatch.Message, error) {
	if w.step == listing {
		return w.list(ctx)
	}
	at, err := w.source.Position(ctx, 0)
	if err != nil {
		return dispatch.Message{}, err
	}
	if w.step == beginResume {
		ok, err := w.replayable(ctx, at)
		if err != nil {
			return dispatch.Message{}, err
		}
		if ok {
			w.to = at.Revision
			w.follow(replaying)
			return w.begins(object.Replay), nil
		}
	}
	return w.reset(ctx, at)
}

func (w *Watcher) begins(kind object.CatchUp) dispatch.Message {
	m := w.message(object.CatchUpBegin, nil, 0)
	m.Header.CatchUp = kind
	return m
}

// replayable reports whether the store still has the changes after the cursor, and
// what was there before them. It returns an error where it has not, and the watcher
// wants every event.
func (w *Watcher) replayable(ctx context.Context, at object.Position) (bool, error) {
	switch {
	case w.cursor == 0:
		return false, nil
	case w.epoch == at.Epoch && w.cursor <= at.Revision:
		_, _, err := w.source.cfg.Store.ListScope(ctx, w.cursor, w.interest.Scope, "", 1)
		if err == nil || !errors.Is(err, object.ErrCompacted) {
			return err == nil, err
		}
		if w.options.EveryEvent {
			return false, w.lost(ctx, w.cursor, at)
		}
		return false, nil
	case w.options.EveryEvent:
		return false, &dispatch.EpochError{Asked: w.epoch, Current: at}
	}
	return false, nil
}

// lost returns the error that says that a revision is forgotten.
func (w *Watcher) lost(ctx context.Context, asked object.Revision, at object.Position) error {
	oldest, err := w.source.cfg.Store.Oldest(ctx, asked, at.Revision)
	if err != nil {
		return err
	}
	return &dispatch.LostError{Asked: asked, Oldest: oldest, Current: at.Revision}
}

// maxForgotten is how many snapshots in a row may be forgotten by the store before
// the watcher has read them. One that reads more slowly than that would be sent
// snapshots for ever and never be in sync.
const maxForgotten = 3

// reset announces the objects at a revision. It reads the first of them before, so
// as not to announce what cannot be had.
func (w *Watcher) reset(ctx context.Context, at object.Position) (dispatch.Message, error) {
	if w.forgotten == maxForgotten {
		return dispatch.Message{}, w.lost(ctx, w.page.at, at)
	}
	p := page{at: at.Revision, scope: w.interest.Scope, watched: true}
	if w.exact > 0 {
		p.at = w.exact
	}
	switch err := w.source.next(ctx, &p); {
	case errors.Is(err, object.ErrCompacted) && w.exact > 0:
		return dispatch.Message{}, w.lost(ctx, w.exact, at)
	case errors.Is(err, object.ErrCompacted):
		// Just now; there will be a newer one.
		return dispatch.Message{}, fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	case err != nil:
		return dispatch.Message{}, err
	}
	w.page, w.epoch, w.cursor = p, w.source.epoch(plain(at.Epoch)), 0
	w.step = listing
	return w.begins(object.Reset), nil
}

// list returns the next part of the snapshot, or the end of it.
func (w *Watcher) list(ctx context.Context) (dispatch.Message, error) {
	var pieces [][]byte
	size := 0
	for {
		for len(w.page.objects) > 0 {
			o := w.page.objects[0]
			if w.interest.Picks(o) {
				event := w.source.cfg.Encoder.AddedEvent(o, w.interest.Projection)
				if len(pieces) > 0 && size+len(event) > w.source.cfg.MessageBytes {
					return w.message(object.CatchUpPart, pieces, len(pieces)), nil
				}
				pieces = append(pieces, event)
				size += len(event)
			}
			w.page.objects[0], w.page.objects = nil, w.page.objects[1:]
		}
		if len(pieces) > 0 {
			return w.message(object.CatchUpPart, pieces, len(pieces)), nil
		}
		if !w.page.more {
			break
		}
		switch err := w.source.next(ctx, &w.page); {
		case errors.Is(err, object.ErrCompacted):
			w.step = beginReset // it took too long; from the beginning
			w.forgotten++
			return w.catchUp(ctx)
		case err != nil:
			return dispatch.Message{}, err
		case w.page.locked && w.source.epoch(plain(w.epoch)) != w.epoch:
			w.step = beginReset
			return w.catchUp(ctx)
		}
	}
	w.cursor = w.page.at
	w.page, w.exact, w.forgotten = page{}, 0, 0
	w.follow(live)
	return w.message(object.Synced, nil, 0), nil
}
