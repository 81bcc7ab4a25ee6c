package store_test

import (
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/history"
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
	for names, err := range r.records.Names(contextFor(t)) {
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			name, _ := history.ParseRecordKey(n.Key)
			bytes += name.Size
		}
	}
	if bytes > limit {
		t.Errorf("the history has %d bytes, want at most %d", bytes, limit)
	}
}
