package store_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// recording is a collection whose writes are recorded, as one server has it.
type recording struct {
	*store.Collection
	history  *history.Recorder
	records  *store.History
	revision map[object.Key]object.Revision // of its own writes
}

func recordingIn(s *store.Store) *recording {
	c := s.Plain("config", "/test/config/")
	records := c.KeepHistory()
	return &recording{c, history.NewRecorder(records, false), records, map[object.Key]object.Revision{}}
}

// servers returns recordings of several servers of one etcd.
func servers(t *testing.T, n int) (e *etcd, all []*recording, stores []*store.Store) {
	t.Helper()
	e = embedded(t, store.EmbeddedConfig{})
	for range n {
		s, err := store.Dial(t.Context(), store.ExternalConfig{Endpoints: e.client.Endpoints()}, quiet())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { closeStore(t, s) })
		stores = append(stores, s)
		all = append(all, recordingIn(s))
	}
	return e, all, stores
}

// write applies operations on keys that only this server writes.
func (r *recording) write(t *testing.T, at time.Time, ops ...object.Op) (object.Revision, error) {
	t.Helper()
	ctx := contextFor(t)
	for i := range ops {
		ops[i].Seen = &object.Seen{ModRevision: r.revision[ops[i].Key]}
	}
	none := func(context.Context, object.Key) (*object.Record, error) { return nil, nil }
	epoch, err := r.history.Prepare(ctx, ops, history.Change{Time: at}, none)
	if err != nil {
		t.Fatal(err)
	}
	done, err := r.Commit(ctx, ops)
	if err != nil {
		return 0, err
	}
	r.history.Note(ops, done.Revision, epoch)
	for i := range ops {
		if r.revision[ops[i].Key] = done.Revision; ops[i].Kind == object.OpDelete {
			delete(r.revision, ops[i].Key)
		}
	}
	return done.Revision, nil
}

func (r *recording) mustWrite(t *testing.T, at time.Time, ops ...object.Op) object.Revision {
	t.Helper()
	revision, err := r.write(t, at, ops...)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// A time means the newest write until then, although a server that has seen less has given it an earlier order.
func TestTimeIncludesWritesWithEarlierOrders(t *testing.T) {
	_, all, _ := servers(t, 2)
	ahead, behind := all[0], all[1]
	now := time.Now()
	behind.mustWrite(t, now, put("b", "1"))
	for range 10 {
		ahead.mustWrite(t, now, put("a", "1"))
	}
	last := behind.mustWrite(t, now.Add(time.Second), put("b", "2"))
	later := ahead.mustWrite(t, now.Add(time.Minute), put("a", "2"))
	reader := history.NewReader(ahead.records, false)
	for after, want := range map[time.Duration]object.Revision{-time.Hour: 0, 2 * time.Second: last, time.Hour: later} {
		if got, err := reader.At(contextFor(t), now.Add(after)); err != nil || got != want {
			t.Errorf("the time %v later means revision %d, %v, want %d", after, got, err, want)
		}
	}
	newest := behind.mustWrite(t, now.Add(time.Minute), put("b", "3"))
	if got, err := reader.At(contextFor(t), now.Add(time.Hour)); err != nil || got != newest {
		t.Errorf("an hour later means revision %d, %v, want %d", got, err, newest)
	}
}

// A write whose precondition does not hold costs the same, however long the history is: etcd looks only at the
// records that are later than what the server has seen.
func TestConflictReadsNoOldRecords(t *testing.T) {
	_, all, stores := servers(t, 1)
	now := time.Now()
	for i := range 20 {
		all[0].mustWrite(t, now, put(fmt.Sprintf("k%d", i), "x"))
	}
	var counted int64
	stores[0].AfterWrites(func(resp *pb.TxnResponse) {
		counted = resp.Responses[len(resp.Responses)-1].GetResponseRange().GetCount()
	})
	_, err := all[0].write(t, now, when(1, put("k0", "y")))
	if _, ok := errors.AsType[*object.ConflictError](err); !ok || counted != 0 {
		t.Errorf("got %v, and etcd has counted %d records, want none", err, counted)
	}
}

// Servers that have seen an order far ahead of etcd's revisions continue from there: each write is sent once.
func TestWritesContinueALateOrder(t *testing.T) {
	_, all, stores := servers(t, 2)
	now := time.Now()
	stores[0].Saw(1_000_000)
	all[0].mustWrite(t, now, put("a", "x"))
	sent := 0
	stores[1].BeforeWrites(func() { sent++ })
	for i := range 20 {
		all[1].mustWrite(t, now, put(fmt.Sprintf("k%d", i%3), "x"))
	}
	if sent != 21 {
		t.Errorf("20 writes were sent %d times, want only the first one twice", sent)
	}
}
