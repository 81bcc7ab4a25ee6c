package past

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/fanoutd/fanoutd/client"
)

// mostKeys is how many objects of a scope may have changed. Their keys are in memory, and each needs requests of its own.
const mostKeys = 100_000

// ErrTooMany is returned if more objects of a scope may have changed than can be compared.
var ErrTooMany = errors.New("too many objects may have changed")

// Change is what leads an object back to its state.
type Change struct {
	State
	Present *client.Object // nil: it does not exist
}

// EndsTTL reports whether an object has a time to live now, and none in its former state.
func (c Change) EndsTTL() bool {
	return c.Object != nil && !c.Object.HasTTL && c.Present != nil && c.Present.HasTTL
}

// Changes returns what leads the objects of a scope back to a revision, in order of their keys. An object
// whose state is unknown is among them.
func Changes(ctx context.Context, r *client.Resource, of client.Scope, revision int64) ([]Change, error) {
	var changes []Change
	for d, err := range compare(ctx, r, of, revision, 0) {
		if err != nil {
			return nil, err
		}
		if c := (Change{d.From, d.To.Object}); d.differs() || c.EndsTTL() {
			changes = append(changes, c)
		}
	}
	return changes, nil
}

// Difference is an object whose two states differ, or of which at least one is not known.
type Difference struct{ From, To State }

func (d Difference) differs() bool {
	return d.From.Unknown != "" || d.To.Unknown != "" || !Same(d.From.Object, d.To.Object)
}

// Differences returns the objects of a scope that differ between two revisions, in order of their keys. If to is 0, the second
// state is the present one.
func Differences(ctx context.Context, r *client.Resource, of client.Scope, from, to int64) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		for d, err := range compare(ctx, r, of, from, to) {
			if (err != nil || d.differs()) && !yield(d, err) {
				return
			}
		}
	}
}

// compare returns the objects of a scope that may differ between two revisions. If to is 0, the second state is the present
// one.
func compare(ctx context.Context, r *client.Resource, of client.Scope, from, to int64) iter.Seq2[Difference, error] {
	return func(yield func(Difference, error) bool) {
		earlier := from
		if to != 0 {
			earlier = min(from, to)
		}
		keys, err := changedKeys(ctx, r, of, earlier, 0, mostKeys)
		for _, key := range keys {
			var d Difference
			if d, err = differenceOf(ctx, r, key, from, to); err != nil {
				break
			}
			if !yield(d, nil) {
				return
			}
		}
		if err != nil {
			yield(Difference{}, err)
		}
	}
}

func differenceOf(ctx context.Context, r *client.Resource, key string, from, to int64) (d Difference, err error) {
	if d.From, err = Of(ctx, r, key, from); err != nil {
		return d, err
	}
	if to != 0 {
		d.To, err = Of(ctx, r, key, to)
		return d, err
	}
	d.To.Key = key
	if d.To.Object, err = r.Get(ctx, key); errors.Is(err, client.ErrNotFound) {
		err = nil
	}
	return d, err
}

// All returns the objects of a scope that existed at a revision, in order of their keys, and those whose state is not known.
func All(ctx context.Context, r *client.Resource, of client.Scope, revision int64) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if err := all(ctx, r, of, revision, yield); err != nil {
			yield(State{}, err)
		}
	}
}

// all is [All]. It returns nil if yield returns false.
func all(ctx context.Context, r *client.Resource, of client.Scope, revision int64, yield func(State, error) bool) error {
	// What changes after this position has its record when the history is read. So the keys and the list, which is of
	// this position, miss nothing together.
	page, err := r.ListPage(ctx, listOf(of, client.PageSize(1))...)
	if err != nil {
		return err
	}
	now := page.Position.Revision
	keys, err := changedKeys(ctx, r, of, revision, now, mostKeys)
	if err != nil {
		return err
	}
	// changed yields the states of the changed keys before a key, or all that are left.
	changed := func(before string, last bool) (more bool, err error) {
		for len(keys) > 0 && (last || keys[0] <= before) {
			s, err := Of(ctx, r, keys[0], revision)
			if err != nil {
				return false, err
			}
			if keys = keys[1:]; (s.Object != nil || s.Unknown != "") && !yield(s, nil) {
				return false, nil
			}
		}
		return true, nil
	}
	for o, err := range r.List(ctx, listOf(of, client.AtRevision(now))...) {
		if err != nil {
			return err
		}
		_, isChanged := slices.BinarySearch(keys, o.Key)
		if more, err := changed(o.Key, false); err != nil || !more {
			return err
		}
		if !isChanged && !yield(State{Key: o.Key, Object: o}, nil) {
			return nil
		}
	}
	_, err = changed("", true)
	return err
}

func listOf(of client.Scope, opts ...client.ListOption) []client.ListOption {
	if of != nil {
		opts = append(opts, of)
	}
	return opts
}

// changedKeys returns the keys of a scope whose objects may have changed since a revision, in order. The objects of now are
// those at a revision, or if that is 0, the present ones.
//
// It reads the whole history of the scope, because an object may have expired or been deleted by another program long
// after its last write. Only the keys that may have changed, most at the most, are kept in memory.
func changedKeys(ctx context.Context, r *client.Resource, of client.Scope, revision, now int64, most int) ([]string, error) {
	changed := map[string]bool{}
	expired := map[string]bool{} // written with a time to live: they may have existed at the revision, unless they still exist
	tooMany := fmt.Errorf("%w since revision %d: more than %d", ErrTooMany, revision, most)
	last := "" // the key of the last entry
	for e, err := range r.History(ctx, of, client.HistoryPageSize(1000)) {
		switch {
		case err != nil:
			return nil, err
		case isWrite(e) && e.Revision > revision:
			changed[e.Key] = true
		case isWrite(e) && e.HasTTL:
			expired[e.Key] = true
		case !isWrite(e) && e.Key != last:
			changed[e.Key] = true // since the last write of the key; what is between two writes follows the newer one
		}
		if last = e.Key; len(changed) > most {
			return nil, tooMany
		}
	}
	opts := listOf(of)
	if now != 0 {
		opts = append(opts, client.AtRevision(now))
	}
	for o, err := range r.List(ctx, opts...) {
		if err != nil {
			return nil, err
		}
		if delete(expired, o.Key); o.ModRevision > revision {
			changed[o.Key] = true
		}
		if len(changed) > most {
			return nil, tooMany
		}
	}
	if maps.Copy(changed, expired); len(changed) > most {
		return nil, tooMany
	}
	return slices.Sorted(maps.Keys(changed)), nil
}
