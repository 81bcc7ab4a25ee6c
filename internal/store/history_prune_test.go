package store_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// The records of a deleted key stay until its deletion is old. They do not keep the pruner from
// removing others.
func TestPrunerKeepsTheSizeBesideADeletedKey(t *testing.T) {
	e := embedded(t, store.EmbeddedConfig{})
	r := recordingIn(e.Store)
	now := time.Now()
	value := strings.Repeat("x", 10_000)
	for i := range 10 {
		r.mustWrite(t, now.Add(time.Duration(i-100)*time.Hour), put("gone", value))
	}
	for i := range 10 {
		r.mustWrite(t, now.Add(time.Duration(i-20)*time.Hour), put("kept", value))
	}
	r.mustWrite(t, now.Add(-time.Minute), remove("gone"))
	const limit = 150_000
	pruner := history.NewPruner(r.records, history.Limits{Versions: 100, Age: 1000 * time.Hour, Bytes: limit}, quiet())
	if err := pruner.Prune(contextFor(t), now); err != nil {
		t.Fatal(err)
	}
	bytes := 0
	for _, name := range r.names(t) {
		bytes += name.Size
	}
	if bytes > limit {
		t.Errorf("the history has %d bytes, want at most %d", bytes, limit)
	}
}

// names returns the names of all records.
func (r *recording) names(t *testing.T) (all []history.Name) {
	t.Helper()
	for names, err := range r.records.Names(contextFor(t)) {
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			name, _ := history.ParseRecordKey(n.Key)
			all = append(all, name)
		}
	}
	return all
}

// interrupted is a history whose etcd goes away after the first keys have been removed.
type interrupted struct{ *store.History }

func (i interrupted) Remove(ctx context.Context, keys []object.Key) error {
	const first = 100
	return errors.Join(i.History.Remove(ctx, keys[:first]), errors.New("etcd is gone"))
}

// A run that does not come to its end leaves a history without a gap, and the next one removes the rest.
func TestPrunerThatIsInterrupted(t *testing.T) {
	e := embedded(t, store.EmbeddedConfig{})
	r := recordingIn(e.Store)
	now := time.Now()
	for i := range 60 {
		r.mustWrite(t, now, put("gone", fmt.Sprint(i)))
	}
	last := r.mustWrite(t, now, remove("gone"))
	limits, later := history.Limits{Versions: 100, Age: time.Hour, Bytes: 1 << 30}, now.Add(2*time.Hour)
	if err := history.NewPruner(interrupted{r.records}, limits, quiet()).Prune(contextFor(t), later); err == nil {
		t.Error("the run has come to its end")
	}
	page, err := history.NewReader(r.records, false).Page(contextFor(t), history.Query{Scope: object.ExactKey("gone"), Limit: 100})
	if n := len(page.Entries); err != nil || n == 0 || n > 12 || page.Entries[0].Revision != last {
		t.Errorf("got %d entries, %v, want the last few, and the deletion first", n, err)
	}
	if err := history.NewPruner(r.records, limits, quiet()).Prune(contextFor(t), later); err != nil {
		t.Fatal(err)
	}
	if left := r.names(t); len(left) > 0 {
		t.Errorf("%d records are left", len(left))
	}
}

// Objects may expire, or be deleted by another program, without a record of it. Their last writes do not stay for
// ever.
func TestPrunerRemovesRecordsOfExpiredObjects(t *testing.T) {
	const objects, size = 150, 1000
	for name, c := range map[string]struct {
		limits history.Limits
		left   int
	}{
		"age":  {history.Limits{Versions: 2, Age: time.Hour, Bytes: 1 << 30}, 2},
		"size": {history.Limits{Versions: 2, Age: 10000 * time.Hour, Bytes: size * objects / 2}, objects / 2},
	} {
		t.Run(name, func(t *testing.T) {
			e := embedded(t, store.EmbeddedConfig{})
			r := recordingIn(e.Store)
			now := time.Now()
			for i := range objects {
				r.mustWrite(t, now.Add(time.Duration(i)*time.Minute), put(fmt.Sprintf("session-%03d", i), strings.Repeat("x", size)))
			}
			if _, err := e.client.Delete(contextFor(t), "/test/config/", clientv3.WithPrefix()); err != nil { // as if they had expired
				t.Fatal(err)
			}
			for _, key := range []string{"kept-1", "kept-2"} {
				r.mustWrite(t, now, put(key, "x"))
			}
			if err := history.NewPruner(r.records, c.limits, quiet()).Prune(contextFor(t), now.Add(24*time.Hour)); err != nil {
				t.Fatal(err)
			}
			left := r.names(t)
			if n := len(left); n > c.left || n < c.left*3/4 || left[0].Key != "kept-1" || left[1].Key != "kept-2" {
				t.Errorf("%d records are left, want about %d, and those of the objects that exist", n, c.left)
			}
		})
	}
}

// The record that an object was encrypted again goes with the other records of the object: it stays while the object
// exists, or until it is too old.
func TestPrunerRemovesTheRecordsOfReencryptedObjectsThatAreGone(t *testing.T) {
	e, all, stores := servers(t, 1)
	now := time.Now()
	all[0].mustWrite(t, now, put("gone", "x"))
	all[0].mustWrite(t, now, put("kept", "x"))
	c := stores[0].Outdated("config", "/test/config/")
	records := c.KeepHistory()
	if done, err := c.Rewrite(contextFor(t), "", 100, 16); err != nil || done.Rewritten != 2 {
		t.Fatalf("got %+v, %v", done, err)
	}
	if _, err := e.client.Delete(contextFor(t), "/test/config/gone"); err != nil { // as if it had expired
		t.Fatal(err)
	}
	pruner := history.NewPruner(records, history.Limits{Versions: 10, Age: time.Hour, Bytes: 1 << 30}, quiet())
	for _, c := range []struct {
		later time.Duration
		want  string
	}{{time.Minute, "P gone, p gone, P kept, p kept"}, {2 * time.Hour, "P kept, p kept"}} {
		if err := pruner.Prune(contextFor(t), now.Add(c.later)); err != nil {
			t.Fatal(err)
		}
		var left []string
		for _, name := range all[0].names(t) {
			left = append(left, fmt.Sprintf("%c %s", name.Kind, name.Key))
		}
		if got := strings.Join(left, ", "); got != c.want {
			t.Errorf("after %v, the records %q are left, want %q", c.later, got, c.want)
		}
	}
}
