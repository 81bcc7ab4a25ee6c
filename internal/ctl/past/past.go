// Package past finds the state of objects at an earlier revision, and the changes that lead back to it.
//
// Nothing is guessed. A state is known if a chain of writes in the history leads to it, if the present object is
// older than the revision, or if etcd itself has not forgotten the revision. Otherwise it is unknown:
// another program has written the object, it may have expired, or the history does not go back so far. The
// oldest write that a history has says nothing about the time before, even if it replaced no object.
//
// One thing leaves no trace: after a deletion, an object with a time to live whose writes are not recorded, or one of
// another program, that is gone before the next write.
package past

import (
	"context"
	"errors"
	"fmt"
	"maps"

	"github.com/fanoutd/fanoutd/client"
)

// State is an object at a revision.
type State struct {
	Key    string
	Object *client.Object // nil: it did not exist, or see Unknown

	// Unknown is why the state is not known; empty: it is.
	Unknown string
}

// Of returns the state of an object at a revision.
func Of(ctx context.Context, r *client.Resource, key string, revision int64) (State, error) {
	s, err := fromHistory(ctx, r, key, revision)
	if err != nil || s.Unknown == "" {
		return s, err
	}
	return s.fromEtcd(ctx, r, revision)
}

// fromHistory returns the state of an object as far as the history has it.
func fromHistory(ctx context.Context, r *client.Resource, key string, revision int64) (State, error) {
	s := State{Key: key}
	var between *client.HistoryEntry // what happened after the last write, but before newer
	var newer *client.HistoryEntry   // the first write after the revision
	for e, err := range r.History(ctx, client.Key(key)) {
		switch {
		case err != nil:
			return s, err
		case !isWrite(e):
			between = e
		case e.Revision > revision:
			newer, between = e, nil
		default:
			return s.at(ctx, r, revision, between, newer, e)
		}
	}
	return s.at(ctx, r, revision, between, newer, nil)
}

func isWrite(e *client.HistoryEntry) bool {
	return e.Kind == client.HistoryPut || e.Kind == client.HistoryDelete
}

// at returns the state between the last write up to the revision and the first one after it. Each of them may
// be missing, and between is nil if the history shows nothing between them.
func (s State) at(ctx context.Context, r *client.Resource, revision int64, between, newer, older *client.HistoryEntry) (State, error) {
	switch {
	case older != nil && older.Revision == revision:
		return s.after(ctx, r, older)
	case newer == nil:
		return s.untilNow(ctx, r, revision, between, older)
	case between != nil && between.Revision != 0 && between.Revision <= revision:
		return s.replacedBy(ctx, r, newer.Revision, between.Revision)
	case between != nil:
		s.Unknown = interruption(between)
	case older == nil && newer.ReplacedRevision == 0:
		s.Unknown = "the history of the object begins with " + When(newer)
	case older == nil:
		s.Unknown = fmt.Sprintf("the history of the object begins with %s, and no longer has what that replaced", When(newer))
	case !follows(newer, older):
		s.Unknown = fmt.Sprintf("the history does not have what revision %d replaced", newer.Revision)
	default:
		return s.after(ctx, r, older)
	}
	return s, nil
}

// follows reports whether a write replaced the result of the one before it, if the history shows nothing between
// them. An object that was encrypted again has a later mod revision, but the same content. If it was
// another program that wrote it, the history shows a gap.
func follows(newer, older *client.HistoryEntry) bool {
	if older.Kind == client.HistoryDelete {
		return newer.ReplacedRevision == 0
	}
	return newer.ReplacedRevision >= older.Revision
}

// interruption says why the state before an entry that is no write is unknown.
func interruption(e *client.HistoryEntry) string {
	switch {
	case e.Kind == client.HistoryExpired:
		return "the object expired, at a time that the history does not have"
	case e.Revision == 0:
		return "another program deleted the object"
	case e.Kind == client.HistoryEarlier:
		return fmt.Sprintf("the history begins with an object of revision %d", e.Revision)
	}
	return fmt.Sprintf("another program wrote the object, at revision %d or before", e.Revision)
}

// untilNow returns the state if the history has no write after the revision. The last one up to it may be
// missing, and since is what happened after that; nil: nothing that the history shows.
func (s State) untilNow(ctx context.Context, r *client.Resource, revision int64, since, older *client.HistoryEntry) (State, error) {
	o, err := r.Get(ctx, s.Key)
	switch {
	case errors.Is(err, client.ErrNotFound):
		o = nil
	case err != nil:
		return s, err
	case o.ModRevision <= revision:
		s.Object = o
		return s, nil
	}
	switch {
	case since != nil:
		s.Unknown = interruption(since)
	case older == nil && o == nil:
		s.Unknown = "the history has no write of it"
	case older == nil:
		s.Unknown = fmt.Sprintf("the object is of revision %d, and the history does not have it", o.ModRevision)
	case o == nil && older.Kind == client.HistoryDelete: // still deleted
	case o != nil && older.Kind == client.HistoryPut:
		// Encrypted again: all else is as it was.
		if s, err = s.after(ctx, r, older); err == nil && s.Object != nil &&
			(o.CreateRevision > older.Revision || o.HasTTL != older.HasTTL || !Same(s.Object, o)) {
			s.Object, s.Unknown = nil, fmt.Sprintf("the object is of revision %d, and the history does not have it", o.ModRevision)
		}
		return s, err
	default:
		s.Unknown = fmt.Sprintf("the history does not have what followed revision %d", older.Revision)
	}
	return s, nil
}

// fromEtcd returns a state that the history does not have, if etcd has not forgotten the revision.
func (s State) fromEtcd(ctx context.Context, r *client.Resource, revision int64) (State, error) {
	o, err := r.Get(ctx, s.Key, client.AtRevision(revision))
	e, refused := errors.AsType[*client.Error](err)
	switch {
	case err == nil && o.Undecryptable():
		return s, nil
	case err == nil:
		return State{Key: s.Key, Object: o}, nil
	case errors.Is(err, client.ErrNotFound):
		return State{Key: s.Key}, nil
	case errors.Is(err, client.ErrRevisionExpired), errors.Is(err, client.ErrRevisionInFuture), refused && e.Code.String() == "PermissionDenied":
		return s, nil
	}
	return s, err
}

// after returns the state that a write left.
func (s State) after(ctx context.Context, r *client.Resource, e *client.HistoryEntry) (State, error) {
	if e.Kind == client.HistoryDelete {
		return s, nil
	}
	return s.writtenAt(ctx, r, e.Revision)
}

// writtenAt returns the object of a write.
func (s State) writtenAt(ctx context.Context, r *client.Resource, revision int64) (State, error) {
	return s.valueOf(ctx, r, revision, func(e *client.HistoryEntry) bool { return e.Kind == client.HistoryPut && e.Revision == revision })
}

// replacedBy returns the object that a write has replaced, and that has no write of its own.
func (s State) replacedBy(ctx context.Context, r *client.Resource, write, revision int64) (State, error) {
	return s.valueOf(ctx, r, write, func(e *client.HistoryEntry) bool {
		return (e.Kind == client.HistoryGap || e.Kind == client.HistoryEarlier) && e.Revision == revision
	})
}

// valueOf reads the values of the history up to a revision, and returns the object of the first entry that is
// wanted.
func (s State) valueOf(ctx context.Context, r *client.Resource, upTo int64, wanted func(*client.HistoryEntry) bool) (State, error) {
	for e, err := range r.History(ctx, client.Key(s.Key), client.HistoryUpTo(upTo), client.HistoryValues(), client.HistoryPageSize(1)) {
		if err != nil {
			return s, err
		}
		if wanted(e) {
			if s.Object = e.Object; s.Object == nil {
				s.Unknown = fmt.Sprintf("the history does not keep the value of revision %d", e.Revision)
			} else if s.Object.Undecryptable() {
				s.Object, s.Unknown = nil, fmt.Sprintf("the server cannot decrypt the value of revision %d", e.Revision)
			}
			return s, nil
		}
		if e.Revision < upTo && isWrite(e) {
			break
		}
	}
	s.Unknown = "the history has changed meanwhile"
	return s, nil
}

// Same reports whether two objects have the same content.
func Same(a, b *client.Object) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.ModRevision == b.ModRevision || a.ContentType == b.ContentType && string(a.Value) == string(b.Value) && maps.Equal(a.Labels, b.Labels)
}
