package client_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

func objectAt(key string, revision int64) *client.Object {
	return &client.Object{Key: key, CreateRevision: 1, ModRevision: revision}
}

func change(t client.EventType, key string, revision int64) client.Event {
	return client.Event{Type: t, Revision: revision, Object: objectAt(key, revision)}
}

func summaries(changes []client.Event) []string {
	var all []string
	for _, c := range changes {
		all = append(all, fmt.Sprint(c.Type, " ", c.Object.Key, " ", c.Revision))
	}
	return all
}

func TestCopyReturnsOnlyDifferences(t *testing.T) {
	var v client.Copy
	steps := []struct {
		update client.Update
		want   []string
	}{
		{client.Update{Phase: client.PhaseReset, Events: []client.Event{change(client.Added, "b", 2), change(client.Added, "a", 1)}}, nil},
		{client.Update{Phase: client.PhaseSynced, Events: []client.Event{change(client.Added, "c", 3)}}, []string{"ADDED a 1", "ADDED b 2", "ADDED c 3"}},
		{client.Update{Phase: client.PhaseLive, Events: []client.Event{change(client.Modified, "a", 4), change(client.Deleted, "b", 5)}}, []string{"MODIFIED a 4", "DELETED b 5"}},
		// A replacement that is replaced before it is complete.
		{client.Update{Phase: client.PhaseReset, Events: []client.Event{change(client.Added, "x", 6)}}, nil},
		{client.Update{Phase: client.PhaseReset, Events: []client.Event{change(client.Added, "a", 4), change(client.Added, "d", 7)}}, nil},
		{client.Update{Phase: client.PhaseSynced, Position: client.Position{Revision: 7}}, []string{"DELETED c 7", "ADDED d 7"}},
		{client.Update{Phase: client.PhaseLive, Events: []client.Event{change(client.Deleted, "a", 8)}}, []string{"DELETED a 8"}},
		// Events that are repeated or summarized after an interruption.
		{client.Update{Phase: client.PhaseLive, Events: []client.Event{
			change(client.Deleted, "never", 9), change(client.Modified, "new", 10), change(client.Added, "d", 11), change(client.Modified, "d", 11),
		}}, []string{"ADDED new 10", "MODIFIED d 11"}},
		{client.Update{Phase: client.PhaseLive, Events: []client.Event{change(client.Deleted, "new", 12)}}, []string{"DELETED new 12"}},
	}
	for i, s := range steps {
		if diff := cmp.Diff(s.want, summaries(v.Apply(&s.update))); diff != "" {
			t.Errorf("step %d:\n%s", i, diff)
		}
	}
	var keys []string
	for o := range v.Objects() {
		keys = append(keys, o.Key)
	}
	if !slices.Equal(keys, []string{"d"}) || v.Len() != 1 || !v.Synced() {
		t.Errorf("got keys %v, want [d]", keys)
	}
}

// After a backup is restored, the same revisions can have other contents.
func TestCopyComparesContents(t *testing.T) {
	old := client.Object{Key: "a", CreateRevision: 1, ModRevision: 2, Version: 2, Value: []byte("1"), ContentType: "text/plain", Labels: map[string]string{"env": "prod"}}
	for name, modify := range map[string]func(*client.Object){
		"nothing":      func(*client.Object) {},
		"value":        func(o *client.Object) { o.Value = []byte("2") },
		"content type": func(o *client.Object) { o.ContentType = "application/json" },
		"labels":       func(o *client.Object) { o.Labels = map[string]string{"env": "test"} },
	} {
		now := old
		modify(&now)
		for way, updates := range map[string][]client.Update{
			"replaced": {{Phase: client.PhaseReset}, {Phase: client.PhaseSynced, Events: []client.Event{{Type: client.Added, Object: &now}}}},
			"replayed": {{Phase: client.PhaseCatchingUp, Events: []client.Event{{Type: client.Modified, Revision: 2, Object: &now}}}},
		} {
			var v client.Copy
			v.Apply(&client.Update{Phase: client.PhaseReset})
			v.Apply(&client.Update{Phase: client.PhaseSynced, Events: []client.Event{{Type: client.Added, Object: &old}}})
			var want []string
			if name != "nothing" {
				want = []string{"MODIFIED a 2"}
			}
			var changes []client.Event
			for _, u := range updates {
				changes = append(changes, v.Apply(&u)...)
			}
			if diff := cmp.Diff(want, summaries(changes)); diff != "" {
				t.Errorf("%s, %s:\n%s", name, way, diff)
			}
		}
	}
}

// A watch that started without the initial objects reports only those that have changed
// since. In another epoch the revisions do not tell, so it reports all objects.
func TestCopyWithoutInitialObjects(t *testing.T) {
	for epoch, want := range map[string][]string{
		"same":    {"DELETED gone 30", "ADDED new 21", "MODIFIED touched 21"},
		"another": {"DELETED gone 30", "ADDED new 21", "ADDED old 2", "ADDED touched 21"},
	} {
		var v client.Copy
		v.Apply(&client.Update{Phase: client.PhaseSynced, Position: client.Position{Epoch: "same", Revision: 10}})
		v.Apply(&client.Update{Phase: client.PhaseLive, Position: client.Position{Epoch: "same", Revision: 20}, Events: []client.Event{
			change(client.Modified, "seen", 11), change(client.Modified, "gone", 11),
		}})
		created := objectAt("new", 21)
		created.CreateRevision = 21
		v.Apply(&client.Update{Phase: client.PhaseReset})
		u := &client.Update{Phase: client.PhaseSynced, Position: client.Position{Epoch: epoch, Revision: 30}, Events: []client.Event{
			{Type: client.Added, Object: created}, change(client.Added, "old", 2), change(client.Added, "touched", 21), change(client.Added, "seen", 11),
		}}
		if diff := cmp.Diff(want, summaries(v.Apply(u))); diff != "" {
			t.Errorf("%s epoch:\n%s", epoch, diff)
		}
	}
}
