package past

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/backoff"
)

// Follower shows each entry of a history, the oldest first, as they are added.
//
// A watch says when to read, and how far: up to its position, every write of the scope has its record. So nothing is
// missing, even if the watch itself was interrupted and has only sent the latest state of each object. Entries that the
// history has removed before they were read are the only exception.
//
// What another program writes leaves no record. The watch has its event, and the history then says what it knows.
type Follower struct {
	Resource *client.Resource
	Scope    client.Scope // nil: the whole resource
	// After is where to begin: a position up to which everything was shown. The zero position is now.
	After   client.Position
	Options []client.HistoryOption
	Watch   []client.WatchOption

	// Show shows an entry. Those of one revision follow each other, in order of their keys.
	Show func(*client.HistoryEntry) error
	// Reached is called when everything up to a position was shown. A later Follower can begin there.
	Reached func(client.Position) error
	// Interrupted is called with the error of a request that is tried again.
	Interrupted func(error)

	at      client.Position
	changed map[string]int64                // by key, the latest revision since at
	foreign map[string]*client.HistoryEntry // by key, what was shown since its last write
}

// ErrEpoch is returned if etcd was restored from a backup: revisions from before say nothing about those after it.
var ErrEpoch = errors.New("etcd was replaced, or restored from a backup, since the position")

// chunk is how many writes are in memory at a time, in the order of the history, which is the reverse.
const chunk = 64

// Run shows entries until ctx ends or something fails.
func (f *Follower) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f.at, f.changed, f.foreign = f.After, map[string]int64{}, map[string]*client.HistoryEntry{}
	opts := append(slices.Clone(f.Watch), client.OmitValues(), client.WithoutReports())
	if f.Scope != nil {
		opts = append(opts, f.Scope)
	}
	unsure := true // the events may not be all changes since at
	if f.at == (client.Position{}) {
		opts, unsure = append(opts, client.FromNow()), false
	} else {
		opts = append(opts, client.After(f.at))
	}
	for _, err := range f.Resource.History(ctx, f.Scope, client.HistoryPageSize(1)) {
		if err != nil { // there is no history, or no right to it
			return err
		}
		break
	}
	for u, err := range f.Resource.Watch(ctx, opts...) {
		if err != nil {
			return err
		}
		unsure = unsure || u.Delta || u.Phase == client.PhaseReset
		for _, e := range u.Events {
			if e.Revision > f.at.Revision {
				f.changed[e.Object.Key] = max(f.changed[e.Object.Key], e.Revision)
			}
		}
		switch {
		case u.Position.Revision == 0:
			continue
		case f.at == (client.Position{}): // the beginning
			f.at = u.Position
		case u.Position.Epoch != f.at.Epoch:
			return ErrEpoch
		case u.Position.Revision > f.at.Revision && (unsure || len(f.changed) > 0):
			if err := f.readAll(ctx, u.Position.Revision); err != nil {
				return err
			}
		}
		f.at, unsure = client.Position{Epoch: u.Position.Epoch, Revision: max(f.at.Revision, u.Position.Revision)}, false
		if err := f.Reached(f.at); err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}

// readAll shows the entries after f.at, up to a revision. It tries again while the server is unavailable.
func (f *Follower) readAll(ctx context.Context, upTo int64) error {
	delays := backoff.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}
	for {
		err := f.read(ctx, upTo)
		e, ok := errors.AsType[*client.Error](err)
		if !ok || e.Code.String() != "Unavailable" {
			return err
		}
		f.Interrupted(err)
		if !backoff.Sleep(ctx, delays.Next()) {
			return context.Cause(ctx)
		}
	}
}

// read moves f.at on with what it has shown.
func (f *Follower) read(ctx context.Context, upTo int64) error {
	ends, err := f.chunks(ctx, upTo)
	if err != nil {
		return err
	}
	for _, end := range ends {
		records, err := f.records(ctx, end)
		if err != nil {
			return err
		}
		for _, r := range records {
			if err := f.show(r); err != nil {
				return err
			}
		}
		f.at.Revision = end
		if err := f.Reached(f.at); err != nil {
			return err
		}
	}
	for key := range f.changed { // those that have no record
		if err := f.showForeign(ctx, key); err != nil {
			return err
		}
		delete(f.changed, key)
	}
	return nil
}

// chunks divides the revisions after f.at, and returns the last one of each chunk. The last chunk ends with upTo.
func (f *Follower) chunks(ctx context.Context, upTo int64) ([]int64, error) {
	ends := []int64{upTo}
	writes, last := 0, int64(0)
	for e, err := range f.Resource.History(ctx, f.Scope, client.HistoryUpTo(upTo)) {
		switch {
		case err != nil:
			return nil, err
		case !isWrite(e):
			continue
		case e.Revision <= f.at.Revision:
			slices.Reverse(ends)
			return ends, nil
		}
		if writes++; writes > chunk && e.Revision != last {
			ends, writes = append(ends, e.Revision), 1
		}
		last = e.Revision
	}
	slices.Reverse(ends)
	return ends, nil
}

// record is a write, with what the history says about the time before it.
type record struct {
	write  *client.HistoryEntry
	before []*client.HistoryEntry // newest first
}

// records returns the writes after f.at, up to a revision, in order of their revisions and keys.
func (f *Follower) records(ctx context.Context, upTo int64) ([]*record, error) {
	var records []*record // newest first
	for e, err := range f.Resource.History(ctx, f.Scope, append([]client.HistoryOption{client.HistoryUpTo(upTo)}, f.Options...)...) {
		if err != nil {
			return nil, err
		}
		n := len(records)
		switch {
		case isWrite(e) && e.Revision <= f.at.Revision:
			return inOrder(records), nil
		case isWrite(e):
			records = append(records, &record{write: e})
		case n > 0 && records[n-1].write.Key == e.Key:
			records[n-1].before = append(records[n-1].before, e)
		}
		// Otherwise it is what happened after the last write of a key. The watch has an event for that.
	}
	return inOrder(records), nil
}

func inOrder(records []*record) []*record {
	slices.SortStableFunc(records, func(a, b *record) int { return int(a.write.Revision - b.write.Revision) })
	return records
}

// show shows a write, and before it what happened to its key, unless that was shown already.
func (f *Follower) show(r *record) error {
	key := r.write.Key
	for _, e := range slices.Backward(r.before) {
		if shown := f.foreign[key]; shown != nil && shown.Revision == e.Revision {
			continue
		}
		if err := f.Show(e); err != nil {
			return err
		}
	}
	delete(f.foreign, key)
	if f.changed[key] <= r.write.Revision {
		delete(f.changed, key)
	}
	return f.Show(r.write)
}

// showForeign shows what the history knows about the time since the last write of a key.
func (f *Follower) showForeign(ctx context.Context, key string) error {
	for e, err := range f.Resource.History(ctx, client.Key(key), append(slices.Clone(f.Options), client.HistoryPageSize(1))...) {
		if err != nil {
			return fmt.Errorf("after a change of %q: %w", key, err)
		}
		if isWrite(e) {
			return nil
		}
		if shown := f.foreign[key]; shown == nil || shown.Kind != e.Kind || shown.Revision != e.Revision {
			if err := f.Show(e); err != nil {
				return err
			}
		}
		f.foreign[key] = e
	}
	return nil
}
