package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/internal/object"
)

// EpochKey is the only key of etcd outside of the prefixes of resources that this
// package uses. It has no slash, so it lies below no prefix. It says something of
// the etcd, not of who uses it, so all who share an etcd share it.
const EpochKey = "fanoutd-epoch"

// epochRecord is what is kept under [EpochKey]. It is written when there is none and
// when etcd is found to have gone back, and at no other time.
//
// The difference between the length of raft's log and the revision is what gives a
// restored snapshot away. An entry of the log makes at most one revision, so the
// difference never falls while etcd lives; but "etcdutl snapshot restore" begins a
// new log and keeps the revisions, or even raises them. The record is restored with
// the rest, and then demands more than the new log has.
type epochRecord struct {
	ID string `json:"id"` // random

	// Offset is a lower bound of what index minus revision was when the record
	// was written.
	Offset int64 `json:"offset"`
}

// minIndex is how long raft's log has to be when the record is written. The log of
// a new cluster, or of a restored one, is shorter: a few entries for each member.
// What is added to it on purpose makes no revisions. By this margin even a backup
// is recognized that was made right behind the record.
const minIndex = 32

// epochs knows which epoch the store has.
type epochs struct {
	client *clientv3.Client
	log    *slog.Logger
	signIn func(context.Context) error // nil: there is no user

	looking chan struct{} // capacity 1: full while somebody looks at etcd
	made    *connections  // to etcd
	looked  atomic.Int64  // so many of them had been made when etcd was last looked at

	mu      sync.Mutex
	epoch   object.Epoch // guarded by mu; empty: etcd has not been looked at
	history *history     // guarded by mu: of that epoch

	// What follows belongs to whoever is looking.

	readable string // a key that may be read if EpochKey may not
	void     string // the id of a record that is wrong and could not be replaced
	local    string // id that could not be recorded; empty: none was needed
	warned   bool   // it was logged that nothing can be recorded
}

func newEpochs(client *clientv3.Client, made *connections, log *slog.Logger) *epochs {
	return &epochs{client: client, made: made, log: log, looking: make(chan struct{}, 1), history: newHistory()}
}

// now returns the epoch as far as it is known, and its history.
func (e *epochs) now() (object.Epoch, *history) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.epoch, e.history
}

// present returns the history of the present epoch.
func (e *epochs) present() *history {
	_, h := e.now()
	return h
}

// ask returns the epoch of etcd. Readable is a key that may be read in any case.
func (e *epochs) ask(ctx context.Context, readable string) (object.Epoch, error) {
	select {
	case e.looking <- struct{}{}:
	case <-ctx.Done():
		return "", ctx.Err()
	}
	defer func() { <-e.looking }()
	e.readable = readable
	return e.look(ctx)
}

// verify looks whether etcd still has its epoch, if that was ever asked for.
func (e *epochs) verify(ctx context.Context) error {
	return e.verifyUnless(ctx, func() bool { return false })
}

// trust verifies the epoch if etcd was not looked at since there is a connection to
// it. What was read on a new connection may be of an etcd that was restored while
// there was none, and the guard has only begun to look. All who have read on that
// connection share one look.
func (e *epochs) trust(ctx context.Context) error {
	return e.verifyUnless(ctx, func() bool { return e.looked.Load() == e.made.count.Load() })
}

func (e *epochs) verifyUnless(ctx context.Context, known func() bool) error {
	if known() {
		return nil
	}
	select {
	case e.looking <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-e.looking }()
	if epoch, _ := e.now(); epoch == "" || known() {
		return nil
	}
	_, err := e.look(ctx)
	return err
}

// look looks at etcd, and gives it a new epoch where it has none or has gone back.
func (e *epochs) look(ctx context.Context) (object.Epoch, error) {
	for {
		epoch, known := e.now()
		seen := known.newest.Load()
		s, err := e.sight(ctx)
		if err != nil {
			return "", err
		}
		undone := func(id string) bool {
			return epochOf(s.cluster, id) == epoch && (known.undone.Load() || s.revision < seen)
		}
		if s.record != nil && s.record.ID != e.void && !s.restored() && !undone(s.record.ID) {
			e.local = ""
			if err := e.strengthen(ctx, s); err != nil {
				e.log.Debug("could not strengthen the record of the epoch", "error", err)
			}
			return e.adopt(s, s.record.ID), nil
		}
		if err = s.denied; err == nil {
			err = e.put(ctx, s, newEpochID())
		}
		switch {
		case err == nil:
			continue // to see what is there now, from us or from somebody else
		case !errors.Is(err, rpctypes.ErrPermissionDenied) && !errors.Is(err, rpctypes.ErrNoSpace):
			return "", err
		}
		e.warn(err)
		if s.record != nil {
			e.void = s.record.ID
		}
		if undone(e.local) || e.local == "" && s.record != nil {
			e.local = newEpochID()
		}
		return e.adopt(s, e.local), nil
	}
}

// adopt makes it known that etcd has the epoch with the given id.
func (e *epochs) adopt(s *sighting, id string) object.Epoch {
	epoch := epochOf(s.cluster, id)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.epoch != epoch {
		if e.epoch != "" {
			e.log.Warn("etcd has another history than before; positions that were given out in it are void",
				"before", e.epoch, "now", epoch, "revision", s.revision)
			e.history.finish()
			e.history = newHistory()
		}
		e.epoch = epoch
	}
	e.history.note(object.Revision(s.revision))
	e.looked.Store(s.made)
	return epoch
}

// warn logs, once, that an epoch cannot be recorded.
func (e *epochs) warn(err error) {
	if !e.warned {
		e.warned = true
		e.log.Warn("the epoch cannot be kept in etcd, so a restored backup may go unnoticed by those who were not running",
			"key", EpochKey, "error", err)
	}
}

// sighting is what etcd looks like when the epoch is asked for.
type sighting struct {
	made     int64 // so many connections were there before
	cluster  uint64
	revision int64 // not older than any write acknowledged before

	record   *epochRecord // nil: none
	recorded int64        // the revision at which it was written; 0: never
	denied   error        // why record could not be read; nil: it was

	// One member's log and revision. The log may be further. 0: unknown.
	index, indexRevision int64
}

// restored reports whether the log is not the one that the record was written to.
// A member that has not yet seen the record says nothing about it.
func (s *sighting) restored() bool {
	return s.record != nil && s.index > 0 && s.indexRevision >= s.recorded &&
		s.index-s.indexRevision < s.record.Offset
}

// patience is how long etcd may take to be sighted before the token is suspected,
// see signIn.
const patience = time.Second

// sight looks at etcd, with a new token if the one we have seems to be of no use.
func (e *epochs) sight(ctx context.Context) (*sighting, error) {
	if e.signIn == nil {
		return e.glance(ctx)
	}
	short, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	s, err := e.glance(short)
	if err == nil || short.Err() == nil {
		return s, err
	}
	if err := e.signIn(ctx); err != nil {
		return nil, err
	}
	return e.glance(ctx)
}

// glance looks at the log first, so that it is not longer than when the revision
// was read.
func (e *epochs) glance(ctx context.Context) (*sighting, error) {
	s := &sighting{made: e.made.count.Load()}
	member, err := e.client.Status(ctx, "")
	switch {
	case err == nil:
		// A member that starts catches up with its own log first. When it has a
		// leader, it has done so.
		if member.Leader != 0 {
			s.index, s.indexRevision = int64(member.RaftIndex), member.Header.GetRevision()
		}
	case codeOf(err) != codes.Unimplemented && codeOf(err) != codes.PermissionDenied:
		return nil, err
	}
	resp, err := e.client.Get(ctx, EpochKey)
	if errors.Is(err, rpctypes.ErrPermissionDenied) {
		s.denied = err
		resp, err = e.client.Get(ctx, e.readable, clientv3.WithCountOnly())
	}
	if err != nil {
		return nil, err
	}
	s.cluster, s.revision = resp.Header.GetClusterId(), resp.Header.GetRevision()
	if s.denied == nil && len(resp.Kvs) > 0 {
		kv := resp.Kvs[0]
		s.recorded, s.record = kv.ModRevision, &epochRecord{}
		if err := json.Unmarshal(kv.Value, s.record); err != nil || s.record.ID == "" {
			e.log.Warn("the record of the epoch is damaged and gets replaced", "key", EpochKey, "value", string(kv.Value))
			s.record = nil
		}
	}
	return s, nil
}

// put writes a record with the id in the place of the one that was sighted, unless
// that is not there any more.
func (e *epochs) put(ctx context.Context, s *sighting, id string) error {
	r := epochRecord{ID: id, Offset: s.index - s.revision}
	value, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = e.client.Txn(ctx).
		If(clientv3.Compare(clientv3.ModRevision(EpochKey), "=", s.recorded)).
		Then(clientv3.OpPut(EpochKey, string(value))).
		Commit()
	return err
}

// strengthen writes the record that was sighted again if it was written to a log
// that was too short. The log is made longer only now that the record is right: in
// a log that was restored, the additions would pass for those that are missing.
func (e *epochs) strengthen(ctx context.Context, s *sighting) error {
	if s.index == 0 || s.record.Offset+s.recorded >= minIndex {
		return nil
	}
	never := clientv3.Compare(clientv3.CreateRevision(EpochKey), "<", 0)
	for range minIndex - s.index {
		if _, err := e.client.Txn(ctx).If(never).Then(clientv3.OpPut(EpochKey, "")).Commit(); err != nil {
			return err
		}
	}
	longer, err := e.sight(ctx)
	if err != nil || longer.recorded != s.recorded || longer.index-longer.revision <= s.record.Offset {
		return err
	}
	return e.put(ctx, longer, s.record.ID)
}

// newEpochID returns 8 random characters: enough for the few epochs that one etcd
// ever has.
func newEpochID() string { return uuid.NewString()[:8] }

// epochOf returns the epoch of a cluster with a recorded id, or without.
func epochOf(cluster uint64, id string) object.Epoch {
	if id == "" {
		return object.Epoch(fmt.Sprintf("%016x", cluster))
	}
	return object.Epoch(fmt.Sprintf("%016x-%s", cluster, id))
}
