package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// model is what the writers of a test know: every write that was applied.
type model struct {
	mu     sync.Mutex
	writes []modelWrite // guarded by mu
}

// modelWrite is one write to one key.
type modelWrite struct {
	revision int64
	key      string
	value    string
	message  string
	deletes  bool
	foreign  bool // by another program
	writes   int  // of its transaction
}

func (m *model) add(writes ...modelWrite) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.writes = append(m.writes, writes...)
}

// history returns what the history of a key must show, newest first.
func (m *model) history(key string) []string {
	writes := slices.DeleteFunc(slices.Clone(m.writes), func(w modelWrite) bool { return w.key != key })
	slices.SortFunc(writes, func(a, b modelWrite) int { return int(a.revision - b.revision) })
	var shown []string
	show := func(s string) { shown = slices.Insert(shown, 0, s) }
	recorded := false                                  // the history of the key has begun
	expected, present, value := int64(0), int64(0), "" // the object after the last record, and the one that is there
	for _, w := range writes {
		if !w.foreign {
			switch {
			case present != expected && !recorded && present != 0:
				show(fmt.Sprintf("EARLIER %d %s", present, value))
			case present != expected && present == 0:
				show("GAP 0 ")
			case present != expected:
				show(fmt.Sprintf("GAP %d %s", present, value))
			}
			kind := "PUT"
			if w.deletes {
				kind = "DELETE"
			}
			show(fmt.Sprintf("%s %d %s %s %d", kind, w.revision, w.value, w.message, w.writes))
			recorded = true
		}
		if present, value = w.revision, w.value; w.deletes {
			present, value = 0, ""
		}
		if !w.foreign {
			expected = present
		}
	}
	if recorded && present != expected {
		show(fmt.Sprintf("GAP %d ", present))
	}
	return shown
}

// Several servers, and another program, write the same few keys. Every applied write has exactly one record,
// there is no record without its write, and gaps are exactly where the other program wrote.
func TestHistoryAgreesWithTheModel(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const servers, writersOfEach, steps, keys = 3, 3, 60, 5
	etcd := openEtcd(t, 0)
	ctx := within(t)
	var all []*instance
	for i := range servers {
		all = append(all, startOver(t, etcd, settings{history: true, uncached: i == 0}))
	}
	m := &model{}
	var writing sync.WaitGroup
	for s, in := range all {
		for w := range writersOfEach {
			random := rand.New(rand.NewPCG(uint64(s), uint64(w)))
			writing.Go(func() {
				for step := range steps {
					if err := in.randomWrite(ctx, m, random, fmt.Sprintf("%d-%d-%d", s, w, step), keys); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	random := rand.New(rand.NewPCG(1, 2))
	writing.Go(func() {
		for step := range steps {
			if err := all[1].randomForeignWrite(ctx, m, random, fmt.Sprintf("foreign-%d", step), keys); err != nil {
				t.Error(err)
				return
			}
		}
	})
	writing.Wait()
	if t.Failed() {
		return
	}
	for s, in := range all {
		for i := range keys {
			key := modelKey(i)
			if diff := cmp.Diff(m.history(key), in.shown(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope(key), PageSize: 7})); diff != "" {
				t.Errorf("server %d, %s (-want +got):\n%s", s, key, diff)
			}
		}
		// The whole resource has the same entries, in order.
		entries := in.entries(ctx, t, &fanoutv1.HistoryRequest{PageSize: 11})
		written := slices.DeleteFunc(slices.Clone(entries), func(e *fanoutv1.HistoryEntry) bool { return e.GetTime() == nil })
		if !slices.IsSortedFunc(written, func(a, b *fanoutv1.HistoryEntry) int { return int(b.GetRevision() - a.GetRevision()) }) {
			t.Errorf("server %d: the history of the resource is not in order", s)
		}
		total := 0
		for i := range keys {
			total += len(m.history(modelKey(i)))
		}
		if len(entries) != total {
			t.Errorf("server %d: the history of the resource has %d entries, those of its keys have %d", s, len(entries), total)
		}
	}
}

func modelKey(i int) string { return fmt.Sprintf("k%d", i) }

// shown returns a history as the model does.
func (in *instance) shown(ctx context.Context, t *testing.T, req *fanoutv1.HistoryRequest) (shown []string) {
	t.Helper()
	req.Values = true
	for _, e := range in.entries(ctx, t, req) {
		switch e.GetKind() {
		case fanoutv1.HistoryEntry_KIND_PUT:
			shown = append(shown, fmt.Sprintf("PUT %d %s %s %d", e.GetRevision(), e.GetObject().GetText(), e.GetMessage(), e.GetTransactionWrites()))
		case fanoutv1.HistoryEntry_KIND_DELETE:
			shown = append(shown, fmt.Sprintf("DELETE %d  %s %d", e.GetRevision(), e.GetMessage(), e.GetTransactionWrites()))
		case fanoutv1.HistoryEntry_KIND_GAP:
			shown = append(shown, fmt.Sprintf("GAP %d %s", e.GetRevision(), e.GetObject().GetText()))
		case fanoutv1.HistoryEntry_KIND_EARLIER:
			shown = append(shown, fmt.Sprintf("EARLIER %d %s", e.GetRevision(), e.GetObject().GetText()))
		default:
			shown = append(shown, e.String())
		}
	}
	return shown
}

// randomWrite does one write through the server. Messages are unique.
func (in *instance) randomWrite(ctx context.Context, m *model, random *rand.Rand, message string, keys int) error {
	key := modelKey(random.IntN(keys))
	switch random.IntN(4) {
	case 0:
		resp, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: key}, Message: message})
		if err != nil {
			return applied(err)
		}
		if resp.GetDeleted() {
			m.add(modelWrite{revision: resp.GetRevision(), key: key, message: message, deletes: true, writes: 1})
		}
	case 1:
		other := modelKey(random.IntN(keys))
		operations := []*fanoutv1.Operation{putOf2(key, message)}
		if other != key {
			operations = append(operations, deleteOp(other))
		}
		resp, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations, Message: message})
		if err != nil {
			return applied(err)
		}
		writes := []modelWrite{{revision: resp.GetRevision(), key: key, value: message, message: message}}
		if other != key && resp.GetResults()[1].GetDeleted() {
			writes = append(writes, modelWrite{revision: resp.GetRevision(), key: other, message: message, deletes: true})
		}
		for i := range writes {
			writes[i].writes = len(writes)
		}
		m.add(writes...)
	default:
		put := putText(key, message)
		if random.IntN(3) == 0 {
			put.IfModRevision = new(int64(0))
		}
		resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: put, Message: message})
		if err != nil {
			return applied(err)
		}
		m.add(modelWrite{revision: resp.GetRevision(), key: key, value: message, message: message, writes: 1})
	}
	return nil
}

func putOf2(key, text string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(key, text)}}
}

// applied returns an error unless it means that nothing was written.
func applied(err error) error {
	switch status.Code(err) {
	case codes.FailedPrecondition, codes.Aborted:
		return nil
	}
	return err
}

// randomForeignWrite does one write as another program does.
func (in *instance) randomForeignWrite(ctx context.Context, m *model, random *rand.Rand, value string, keys int) error {
	key := modelKey(random.IntN(keys))
	op := object.Op{Kind: object.OpDelete, Key: object.Key(key)}
	if random.IntN(3) > 0 {
		codec, err := object.CodecByName(codecOf[config])
		if err != nil {
			return err
		}
		stored, refusal := object.Encode(codec, object.Content{Value: []byte(value)}, true)
		if refusal != nil {
			return refusal
		}
		op.Kind, op.Value = object.OpPut, stored
	}
	commit, err := in.collections[config].Commit(ctx, []object.Op{op})
	if err != nil {
		return err
	}
	if op.Kind == object.OpPut || commit.Deleted[0] {
		m.add(modelWrite{revision: int64(commit.Revision), key: key, value: value, deletes: op.Kind == object.OpDelete, foreign: true})
	}
	return nil
}

// Writers of one key at one server succeed, also in transactions with another key, although each must have seen the write before its own. None is overtaken
// by new writes again and again. Before an etcd in another process, a write takes longer.
func TestHistoryOfOneContendedKey(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := loopback.FreeAddress(t)
	embedded := openEtcdWith(t, store.EmbeddedConfig{ListenClient: address})
	external, err := store.Dial(within(t), store.ExternalConfig{Endpoints: []string{address}}, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = external.Close(context.Background()) })
	for name, etcd := range map[string]*store.Store{"embedded": embedded, "external": external} {
		t.Run(name, func(t *testing.T) { contend(t, startOver(t, etcd, settings{history: true}), name) })
	}
}

// putAll writes a text to some keys, in one transaction.
func (in *instance) putAll(ctx context.Context, keys []string, text string) (revision int64, err error) {
	req := &fanoutv1.TransactRequest{Resource: config}
	for _, key := range keys {
		req.Operations = append(req.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(key, text)}})
	}
	resp, err := in.writes.Transact(ctx, req)
	return resp.GetRevision(), err
}

func contend(t *testing.T, in *instance, key string) {
	ctx := within(t)
	const writers, steps = 16, 25
	var writing sync.WaitGroup
	var mu sync.Mutex
	applied := map[int64]bool{} // guarded by mu
	for w := range writers {
		writing.Go(func() {
			for step := range steps {
				keys := []string{key}
				if w%4 == 0 {
					keys = []string{key, key + "/other"}
					if w%8 == 0 {
						slices.Reverse(keys)
					}
				}
				revision, err := in.putAll(ctx, keys, fmt.Sprintf("%d-%d", w, step))
				if err != nil {
					t.Error(err)
					continue
				}
				mu.Lock()
				applied[revision] = true
				mu.Unlock()
			}
		})
	}
	writing.Wait()
	entries := in.entries(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope(key)})
	for _, e := range entries {
		if !applied[e.GetRevision()] {
			t.Errorf("%s is no write", summary(e))
		}
	}
	if len(entries) != len(applied) || len(applied) != writers*steps {
		t.Errorf("got %d entries of %d writes", len(entries), len(applied))
	}
}
