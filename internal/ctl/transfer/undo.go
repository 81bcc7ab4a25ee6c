package transfer

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/backoff"
	"github.com/fanoutd/fanoutd/internal/ctl/past"
)

// Undo notes writes, and takes them back. A write is noted with the object that it replaced, so the resource
// needs no history.
//
// An object that has been written since stays as it is. One thing goes unnoticed: after a deletion, an object that was
// created and deleted by others.
type Undo struct {
	Resource *client.Resource
	// Message returns the message of the write that takes back those of a revision.
	Message func(revision int64) string
	// DerivedLabels is that of [Writer].
	DerivedLabels func() bool
	// SkipValidation restores objects although the validation rules refuse them.
	SkipValidation bool
	// KeepTTL says that the writes have kept the times to live. Otherwise, objects are restored without one.
	KeepTTL bool
	// Retry is how long to retry while the server is unavailable.
	Retry time.Duration

	mu      sync.Mutex // guards the fields below
	written map[int64][]Change
	unknown []Change
}

// Note notes that changes were made at a revision. Only their actions, keys and old objects matter.
func (u *Undo) Note(revision int64, changes ...Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.written == nil {
		u.written = map[int64][]Change{}
	}
	u.written[revision] = append(u.written[revision], changes...)
}

// NoteUnknown notes changes that may have been made, at an unknown revision. They cannot be taken back.
func (u *Undo) NoteUnknown(changes ...Change) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unknown = append(u.unknown, changes...)
}

// Empty reports whether nothing was noted.
func (u *Undo) Empty() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.written) == 0 && len(u.unknown) == 0
}

// Undone is a change that [Undo] has tried to take back.
type Undone struct {
	Change
	Outcome Outcome
	// Revision is the revision of the write that has restored the object, or the present one of an object that has
	// been written since. 0: it is not known, or there is no object.
	Revision int64
	// Err is why the object was not restored.
	Err error
}

// Outcome is an end of an attempt to take a change back.
type Outcome int

const (
	// Restored: the object is as it was before the change.
	Restored Outcome = iota
	// Superseded: another client has written or deleted the object since.
	Superseded
	// Kept: the change stays, because it could not be taken back.
	Kept
	// Unknown: it is not known whether the change was made, or whether it was taken back.
	Unknown
)

// TakeBack takes back what was noted, the newest revision first, each revision in one transaction if the
// server accepts that. If ctx ends, the transaction in progress is finished.
func (u *Undo) TakeBack(ctx context.Context) []Undone {
	u.mu.Lock()
	defer u.mu.Unlock()
	var all []Undone
	var fatal error
	for _, revision := range slices.Backward(slices.Sorted(maps.Keys(u.written))) {
		t := takingBack{Undo: u, r: u.Resource.Because(u.Message(revision)), revision: revision, fatal: fatal}
		t.batch(ctx, u.written[revision], false)
		slices.SortFunc(t.done, func(a, b Undone) int { return strings.Compare(a.Key, b.Key) })
		all, fatal = append(all, t.done...), t.fatal
	}
	for _, c := range u.unknown {
		all = append(all, Undone{Change: c, Outcome: Unknown})
	}
	return all
}

// takingBack takes back the writes of one revision.
type takingBack struct {
	*Undo
	r        *client.Resource
	revision int64
	done     []Undone
	fatal    error // no further attempt is made
}

// batch takes back changes in one transaction. Those that cannot be taken back are left out. If uncertain, an earlier
// attempt may have been applied.
func (t *takingBack) batch(ctx context.Context, changes []Change, uncertain bool) {
	for len(changes) > 0 {
		if t.fatal != nil {
			t.end(changes, Kept, 0, t.fatal)
			return
		}
		revision, lost, err := t.transact(ctx, changes)
		uncertain = uncertain || lost
		e, ok := errors.AsType[*client.Error](err)
		denied := ok && e.Reason == client.ErrPermissionDenied
		switch {
		case err == nil:
			t.end(changes, Restored, revision, nil)
			return
		case ok && e.Reason == client.ErrPreconditionFailed:
			at := slices.IndexFunc(changes, func(c Change) bool { return c.Key == e.Metadata["key"] })
			if at < 0 { // a server that does not name it
				t.end(changes, Kept, 0, err)
				return
			}
			if uncertain {
				t.lookUp(ctx, changes[at])
			} else {
				now, _ := strconv.ParseInt(e.Metadata["mod_revision"], 10, 64)
				t.end(changes[at:at+1], Superseded, now, nil)
			}
			changes = slices.Delete(slices.Clone(changes), at, at+1)
		case len(changes) > 1 && (refused(err) || denied):
			half := len(changes) / 2
			t.batch(ctx, changes[:half], uncertain)
			changes = changes[half:]
		case uncertain:
			t.end(changes, Unknown, 0, err)
			t.fatal = err
			return
		default:
			t.end(changes, Kept, 0, err)
			if !refused(err) && !denied {
				t.fatal = err // the others would fail, too
			}
			return
		}
	}
}

func (t *takingBack) end(changes []Change, outcome Outcome, revision int64, err error) {
	for _, c := range changes {
		t.done = append(t.done, Undone{Change: c, Outcome: outcome, Revision: revision, Err: err})
	}
}

// lookUp finds out what became of an object that is not at the revision of the change any more, after an attempt
// whose answer was lost.
func (t *takingBack) lookUp(ctx context.Context, c Change) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), txnTimeout)
	defer cancel()
	o, err := t.r.Get(call, c.Key)
	if errors.Is(err, client.ErrNotFound) {
		o, err = nil, nil
	}
	var revision int64
	if o != nil {
		revision = o.ModRevision
	}
	switch {
	case err != nil:
		t.end([]Change{c}, Unknown, 0, err)
	case past.Same(o, c.Old):
		t.end([]Change{c}, Restored, revision, nil)
	default:
		t.end([]Change{c}, Superseded, revision, nil)
	}
}

// transact sends one transaction that takes back changes, and retries while the server is unavailable. It also reports
// whether an attempt has failed that may have been applied.
func (t *takingBack) transact(ctx context.Context, changes []Change) (revision int64, uncertain bool, err error) {
	ops := t.operations(changes)
	giveUp := time.Now().Add(t.Retry)
	delays := backoff.Backoff{First: 100 * time.Millisecond, Most: 5 * time.Second}
	for ctx.Err() == nil {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), txnTimeout)
		done, err := t.r.Transact(call, ops...)
		cancel()
		if err == nil {
			return done.Revision, uncertain, nil
		}
		uncertain = uncertain || Uncertain(err)
		if !isTransient(err) && !errors.Is(err, client.ErrRateLimited) || time.Now().After(giveUp) {
			return 0, uncertain, err
		}
		pause := delays.Next()
		if e, ok := errors.AsType[*client.Error](err); ok {
			pause = max(pause, e.RetryAfter)
		}
		backoff.Sleep(ctx, pause)
	}
	return 0, uncertain, context.Cause(ctx)
}

// operations returns what takes back changes.
func (t *takingBack) operations(changes []Change) []client.Op {
	var puts []client.WriteOption
	var deletes []client.DeleteOption
	if t.SkipValidation {
		puts, deletes = append(puts, client.SkipValidation()), append(deletes, client.SkipValidation())
	}
	if t.KeepTTL {
		puts = append(puts, client.KeepTTL())
	}
	ops := make([]client.Op, len(changes))
	for i, c := range changes {
		if c.Old == nil {
			ops[i] = client.OpDelete(c.Key, append(slices.Clip(deletes), client.IfRevision(t.revision))...)
			continue
		}
		present := client.IfRevision(t.revision)
		if c.Action == Delete {
			present = client.IfAbsent()
		}
		v := c.Old.AsValue()
		if len(v.Labels) > 0 && t.DerivedLabels != nil && t.DerivedLabels() {
			v = v.WithLabels(nil)
		}
		ops[i] = client.OpPut(c.Key, v, append(slices.Clip(puts), present)...)
	}
	return ops
}

// Uncertain reports whether a write that has failed with an error may have been applied.
func Uncertain(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	if !ok || slices.Contains([]client.Reason{client.ErrRateLimited, client.ErrLimitReached, client.ErrWriteContended, client.ErrNotReady}, e.Reason) {
		return false
	}
	return slices.Contains([]string{"Unavailable", "DeadlineExceeded", "Canceled", "Unknown", "Internal", "Aborted"}, e.Code.String())
}

// ReadOld replaces the old objects of changes by their stored form, which is what [Undo] restores. The values of
// a plan may be in their JSON form. An object that has changed meanwhile stays: its change is refused.
func ReadOld(ctx context.Context, r *client.Resource, changes []Change) error {
	var keys []string
	for _, c := range changes {
		if c.Old != nil {
			keys = append(keys, c.Key)
		}
	}
	stored, err := getAll(ctx, r, keys)
	if err != nil {
		return err
	}
	for i := range changes {
		c := &changes[i]
		if o := stored[c.Key]; o != nil && c.Old != nil && o.ModRevision == c.Old.ModRevision {
			c.Old = o
		}
	}
	return nil
}

// CommonPath returns the longest path that all keys are below, or "".
func CommonPath(keys []string) string {
	var common []string
	for i, key := range keys {
		segments := strings.Split(key, "/")
		segments = segments[:len(segments)-1]
		if i == 0 {
			common = segments
			continue
		}
		n := 0
		for n < min(len(common), len(segments)) && common[n] == segments[n] {
			n++
		}
		common = common[:n]
	}
	return strings.Join(common, "/")
}
