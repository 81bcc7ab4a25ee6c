package store_test

import (
	"fmt"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

// A reader of an embedded etcd gets the changes that have happened meanwhile at once, but none of those
// after an answer to a progress request with those before it.
func TestChangesOfOneMomentArriveTogether(t *testing.T) {
	c := embedded(t, store.EmbeddedConfig{}).collection()
	at := commit(t, c, put("k", "v"))
	w := watch(t, c, at)
	var last object.Revision
	for i := range 5 {
		last = commit(t, c, put("k", fmt.Sprint(i)))
	}
	if err := w.RequestProgress(contextFor(t)); err != nil {
		t.Fatal(err)
	}
	end := commit(t, c, remove("k"))
	for _, want := range []object.Update{
		{Records: make([]object.Record, 5), Through: last},
		{Through: last},
		{Records: make([]object.Record, 1), Through: end},
	} {
		u, err := w.Next(contextFor(t))
		if err != nil || len(u.Records) != len(want.Records) || u.Through != want.Through {
			t.Fatalf("got %s through %d, %v, want %d changes through %d", show(u.Records), u.Through, err, len(want.Records), want.Through)
		}
	}
}
