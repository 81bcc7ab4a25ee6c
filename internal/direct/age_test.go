package direct_test

import (
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/dispatch"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A message states an age unless the store has confirmed the position in the last second.
func TestMessagesStateTheirAge(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	f := start(t, direct.Config{ProgressInterval: time.Hour})
	// Nothing confirms the position between the snapshot and the last bookmark.
	w := f.watch(t, dispatch.Interest{}, dispatch.FromSnapshot(0), dispatch.Options{LastBookmark: time.Now().Add(1500 * time.Millisecond)})
	for _, want := range []struct {
		kind object.MessageKind
		age  bool
	}{{object.CatchUpBegin, false}, {object.Synced, false}, {object.Bookmark, true}} {
		m, err := w.Next(contextFor(t))
		if err != nil {
			t.Fatal(err)
		}
		if m.Header.Kind != want.kind || (m.Header.Age > 0) != want.age {
			t.Errorf("got kind %d with an age of %v, want kind %d with an age: %v", m.Header.Kind, m.Header.Age, want.kind, want.age)
		}
	}
	// A bookmark after a silence waits until the store has confirmed the position.
	quiet := f.watch(t, dispatch.Interest{}, dispatch.FromSnapshot(0), dispatch.Options{BookmarkInterval: 1500 * time.Millisecond})
	quiet.begins(t, object.Reset)
	quiet.next(t, object.Synced)
	if m, err := quiet.Next(contextFor(t)); err != nil || m.Header.Kind != object.Bookmark || m.Header.Age > 0 {
		t.Errorf("got kind %d with an age of %v and %v, want a bookmark without an age", m.Header.Kind, m.Header.Age, err)
	}
}
