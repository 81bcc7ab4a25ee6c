package store_test

import (
	"errors"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
)

func TestCommitRefusesALargeWrite(t *testing.T) {
	both(t, func(t *testing.T, e *etcd) {
		c := e.collection()
		before := commit(t, c, put("k", "v"))
		_, err := c.Commit(contextFor(t), []object.Op{put("k", string(make([]byte, 2<<20)))})
		if !errors.Is(err, object.ErrTooLarge) {
			t.Errorf("got %v, want %v", err, object.ErrTooLarge)
		}
		if now, err := c.Revision(contextFor(t)); err != nil || now != before {
			t.Errorf("got revision %d, %v, want %d", now, err, before)
		}
	})
}

// A full etcd refuses writes and still serves reads.
func TestFullEtcdServesReads(t *testing.T) {
	c := embedded(t, store.EmbeddedConfig{QuotaBytes: 1 << 20}).collection()
	// etcd checks the quota when it commits to disk, ten times a second.
	ctx := contextFor(t)
	var err error
	for err == nil {
		_, err = c.Commit(ctx, []object.Op{put("k", string(make([]byte, 100_000)))})
	}
	if !errors.Is(err, object.ErrNoSpace) {
		t.Fatalf("got %v, want %v", err, object.ErrNoSpace)
	}
	if _, err := c.Revision(contextFor(t)); err != nil {
		t.Error(err)
	}
}
