package store

import (
	"context"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
)

// This file serves resources without a cache: it reads and watches a scope instead of
// the whole resource, and reports previous values.

// Position returns the epoch of the store and its revision as [Collection.Revision]
// returns it. It inspects the epoch only if the epoch is unknown or has ended, or if
// the client has reconnected, so it usually costs one request.
func (c *Collection) Position(ctx context.Context) (object.Position, error) {
	for {
		epoch, h := c.store.epochs.current()
		if epoch == "" || h.hasEnded() {
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
			err = c.verifyConnection(ctx)
		}
		if now, h := c.store.epochs.current(); now != epoch || h.hasEnded() {
			continue // the revision belongs to another epoch
		}
		return object.Position{Epoch: epoch, Revision: r}, err
	}
}

// ListScope is [Collection.List] restricted to a scope. It fails with
// [object.ErrUnavailable] if the epoch changes during the call.
func (c *Collection) ListScope(ctx context.Context, at object.Revision, scope object.Scope, start object.Key, limit int) (records []object.Record, more bool, err error) {
	first, end := c.keyRange(scope)
	if scope == object.ExactKey(scope.First()) {
		end = first + "\x00"
	}
	_, h := c.store.epochs.current()
	records, more, err = c.list(ctx, at, max(first, c.prefix+string(start)), end, limit)
	if ctx.Err() == nil {
		// etcd may have been restored if the client has reconnected. This check also
		// covers the error that the revision is unknown.
		if err := c.verifyConnection(ctx); err != nil {
			return nil, false, err
		}
	}
	if h.hasEnded() {
		return nil, false, errHistoryEnded
	}
	return records, more, err
}

// CountScope returns the number of keys that ListScope would list, plus those that it leaves
// out because they are not valid UTF-8. Its errors are those of ListScope.
func (c *Collection) CountScope(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) (int64, error) {
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	first, end := c.keyRange(scope)
	if scope == object.ExactKey(scope.First()) {
		end = first + "\x00"
	}
	from := max(first, c.prefix+string(start))
	if from >= end {
		return 0, nil
	}
	_, h := c.store.epochs.current()
	resp, err := c.store.client.Get(ctx, from, clientv3.WithRange(end), clientv3.WithRev(int64(at)), clientv3.WithCountOnly())
	err = classify(ctx, err)
	c.store.calls.count(OpList, err)
	if ctx.Err() == nil {
		if err := c.verifyConnection(ctx); err != nil {
			return 0, err
		}
	}
	if h.hasEnded() {
		return 0, errHistoryEnded
	}
	if err != nil {
		return 0, err
	}
	return resp.Count, nil
}

// verifyConnection makes sure that the last answer of etcd belongs to the known epoch,
// or that the history of the epoch has ended.
func (c *Collection) verifyConnection(ctx context.Context) error {
	call, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return classify(ctx, c.store.epochs.verifyConnection(call))
}

// WatchScope calls deliver with every change of the scope after the position, in order.
// It returns the first error of ctx, of the watch, or of deliver. While deliver waits, etcd
// sends little more.
//
// Previous has one entry per record of the update: the record before the change. The
// entry is nil if there was none or if etcd has compacted it. An update without records
// reports progress. To request one, the caller sends on ask.
//
// Errors of the watch: [object.ErrCompacted] if etcd has compacted the changes,
// [object.ErrAnswerTooLarge] if a change is too large to arrive, and [object.ErrUnavailable]
// if etcd is unreachable or the epoch has changed.
func (c *Collection) WatchScope(ctx context.Context, scope object.Scope, after object.Position, ask <-chan struct{},
	deliver func(u object.Update, previous []*object.Record) error,
) error {
	first, end := c.keyRange(scope)
	epoch, h := c.store.epochs.current()
	if epoch != after.Epoch {
		return errHistoryEnded
	}
	if !c.store.versions.progressIsReliable(ctx) {
		first, end = c.prefix, c.end // a range that includes the progress marks
	}
	s := c.watch(ctx, h, watchRange{first: first, end: end, previous: true}, after.Revision, maxUnreadScope)
	defer s.Close()
	for {
		resp, err := s.receive(ctx, ask)
		if err != nil {
			return err
		}
		for _, events := range parts(resp.Events, partBytes) {
			resp.Events = events
			var previous []*object.Record
			u, ok := c.update(resp, &previous)
			if !ok {
				continue
			}
			u.Records, previous = filterScope(scope, u.Records, previous)
			s.advance(u.Through)
			if err := deliver(u, previous); err != nil {
				return err
			}
		}
	}
}

// filterScope returns the records of a scope, and their previous records.
func filterScope(scope object.Scope, records []object.Record, previous []*object.Record) ([]object.Record, []*object.Record) {
	n := 0
	for i := range records {
		if scope.Contains(records[i].Key) {
			records[n], previous[n] = records[i], previous[i]
			n++
		}
	}
	return records[:n], previous[:n]
}

// keyRange returns the range of etcd keys of a scope: the first key, and the end, which
// is empty for a single key.
func (c *Collection) keyRange(scope object.Scope) (first, end string) {
	key := scope.First()
	first = c.prefix + string(key)
	if scope == object.ExactKey(key) {
		return first, ""
	}
	return first, clientv3.GetPrefixRangeEnd(first)
}
