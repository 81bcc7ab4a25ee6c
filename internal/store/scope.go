package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// What is in this file serves a resource without a cacher in front of it: reads
// and watches of a scope instead of all of it, with what was there before.

// Position returns where the store is: its epoch, and its revision as
// [Collection.Revision] returns it. The epoch is looked for only if it is not known
// or known to be over, or there is a new connection to etcd, so the answer costs one
// request mostly.
func (c *Collection) Position(ctx context.Context) (object.Position, error) {
	for {
		epoch, h := c.store.epochs.now()
		if epoch == "" || h.isOver() {
			var err error
			if epoch, err = c.Epoch(ctx); err != nil {
				return object.Position{}, err
			}
		}
		r, err := c.Revision(ctx)
		if ctx.Err() != nil {
			return object.Position{}, ctx.Err()
		}
		if err == nil {
			err = c.trust(ctx)
		}
		if now, h := c.store.epochs.now(); now != epoch || h.isOver() {
			continue // the revision is one of another epoch
		}
		return object.Position{Epoch: epoch, Revision: r}, err
	}
}

// ListScope is [Collection.List] of the keys of a scope. It fails with
// [object.ErrUnavailable] if the epoch becomes another one meanwhile.
func (c *Collection) ListScope(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error) {
	first, end := c.bounds(scope)
	if scope == object.ExactKey(scope.First()) {
		end = first + "\x00"
	}
	_, h := c.store.epochs.now()
	records, more, err = c.list(ctx, at, max(first, c.prefix+string(start)), end, limit)
	if ctx.Err() == nil {
		// Where etcd was away, it may have been restored: also if it says that it
		// does not know the revision.
		if err := c.trust(ctx); err != nil {
			return nil, false, err
		}
	}
	if h.isOver() {
		return nil, false, errHistoryOver
	}
	return records, more, err
}

// trust sees to it that what etcd has just answered is of the epoch that is known, or
// that epoch is over.
func (c *Collection) trust(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return classify(ctx, c.store.epochs.trust(call))
}

// Follow calls deliver with every change of the scope after the position, in order,
// until an error ends it: that of ctx, of the watch, or of deliver. Previous says
// for each record of the update what was there before, nil if there was nothing or
// if etcd has forgotten it. An update without records says how far the store is;
// receiving from ask makes it come soon.
//
// Errors of the watch: [object.ErrCompacted] where etcd has forgotten the changes,
// and [object.ErrUnavailable] where etcd is away, and where the epoch is another
// one by now.
func (c *Collection) WatchScope(ctx context.Context, scope object.Scope, after object.Position, ask <-chan struct{},
	deliver func(u object.Update, previous []*object.Record) error,
) error {
	first, end := c.bounds(scope)
	epoch, h := c.store.epochs.now()
	if epoch != after.Epoch {
		return errHistoryOver
	}
	if !c.store.versions.answerProgress(ctx) {
		first, end = c.prefix, c.end // where the marks are, see Collection.mark
	}
	s := c.watch(ctx, h, first, after.Revision, clientv3.WithRange(end), clientv3.WithPrevKV())
	defer s.Close()
	for {
		resp, err := s.receive(ctx, ask)
		if err != nil {
			return err
		}
		var previous []*object.Record
		u, ok := c.update(resp, &previous)
		if !ok {
			continue
		}
		u.Records, previous = within(scope, u.Records, previous)
		s.reached(u.Through)
		if err := deliver(u, previous); err != nil {
			return err
		}
	}
}

// within returns the records of a scope, and what was there before them.
func within(scope object.Scope, records []object.Record, previous []*object.Record) ([]object.Record, []*object.Record) {
	n := 0
	for i := range records {
		if scope.Contains(records[i].Key) {
			records[n], previous[n] = records[i], previous[i]
			n++
		}
	}
	return records[:n], previous[:n]
}

// bounds returns the range of etcd's keys that is the scope: its first key, and the
// end, which is empty for a single key.
func (c *Collection) bounds(scope object.Scope) (first, end string) {
	key := scope.First()
	first = c.prefix + string(key)
	if scope == object.ExactKey(key) {
		return first, ""
	}
	return first, clientv3.GetPrefixRangeEnd(first)
}
