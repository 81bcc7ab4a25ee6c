package dispatch_test

import (
	"testing"
	"testing/synctest"

	"github.com/fanoutd/fanoutd/internal/dispatch/catchup"
	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// labelled returns a stored value with a label "env".
func labelled(t testing.TB, value, env string) []byte {
	t.Helper()
	codec, err := object.CodecByName("object")
	if err != nil {
		t.Fatal(err)
	}
	content := object.Content{Value: []byte(value), ContentType: object.ContentText}
	if env != "" {
		content.Labels = map[string]string{"env": env}
	}
	stored, refusal := codec.Encode(content)
	if refusal != nil {
		t.Fatal(refusal)
	}
	return stored
}

// picking returns the interest in objects with these labels.
func picking(t testing.TB, labels string) feed.Interest {
	t.Helper()
	s, err := selector.ParseLabels(labels)
	if err != nil {
		t.Fatal(err)
	}
	return feed.Interest{Selector: s}
}

// The type of an event depends on the objects that the selector matches, before and after the
// change. It is the same for live events and replayed ones. After a relist, the server sends
// the present object, or that there is none.
func TestFiltered(t *testing.T) {
	const prod, test, gone = "prod", "test", "-"
	tests := []struct{ before, after, want string }{
		{gone, prod, "+k=2"},
		{test, prod, "+k=2"},
		{"", prod, "+k=2"},
		{prod, prod, "~k=2"},
		{prod, test, "-k"},
		{prod, "", "-k"},
		{prod, gone, "-k"},
		{gone, test, ""},
		{test, test, ""},
		{test, gone, ""},
	}
	write := func(t *testing.T, f *fixture, value, env string) object.Revision {
		if env == gone {
			return f.store.Commit(map[object.Key][]byte{"k": nil})
		}
		return f.store.Commit(map[object.Key][]byte{"k": labelled(t, value, env)})
	}
	for _, tc := range tests {
		t.Run(tc.before+" to "+tc.after, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{codec: "object"})
				write(t, f, "1", tc.before)
				synctest.Wait()
				before := f.cacher.State().Position()
				w := f.watchInterest(t, picking(t, "env=prod"), catchup.FromSnapshot(0))
				if got, want := show(w.sync(t, object.Reset)), map[string]string{prod: "+k=1"}[tc.before]; got != want {
					t.Errorf("got snapshot %q, want %q", got, want)
				}
				at := write(t, f, "2", tc.after)
				if tc.want == "" {
					w.quiet(t)
				} else if m := w.next(t, object.Live); show(m.Events) != tc.want || m.Events[0].Revision != at {
					t.Errorf("got live events %q at revision %d, want %q at %d", show(m.Events), m.Events[0].Revision, tc.want, at)
				}
				late := f.watchInterest(t, picking(t, "env in (prod)"), catchup.FromPosition(before))
				if got := show(late.sync(t, object.Replay)); got != tc.want {
					t.Errorf("got replayed events %q, want %q", got, tc.want)
				}
				if n := f.dispatcher.Interests(); n != 1 {
					t.Errorf("got %d interests for two forms of one selector, want 1", n)
				}
			})
		})
		t.Run("relist, "+tc.before+" to "+tc.after, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := start(t, limits{codec: "object"})
				write(t, f, "1", tc.before)
				synctest.Wait()
				w := f.watchInterest(t, picking(t, "env=prod"), catchup.FromSnapshot(0))
				w.sync(t, object.Reset)
				f.store.Change(func() { f.store.Quiet = true })
				write(t, f, "between", test)
				write(t, f, "2", tc.after)
				now := f.store.Now()
				f.store.Change(func() { f.store.Compacted, f.store.Quiet = now, false })
				want := "-k"
				switch {
				case tc.after == prod && tc.before == gone:
					want = "+k=2"
				case tc.after == prod:
					want = "~k=2"
				}
				if got := show(w.sync(t, object.Delta)); got != want {
					t.Errorf("got %q, want %q", got, want)
				}
			})
		})
	}
}

// A change that no selector matches is not encoded, and wakes no watcher.
func TestFilteredOutEventsAreNotEncoded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := start(t, limits{codec: "object"})
		w := f.watchInterest(t, picking(t, "env=prod"), catchup.FromSnapshot(0))
		w.sync(t, object.Reset)
		for range 10 {
			f.store.Commit(map[object.Key][]byte{"k": labelled(t, "v", "test")})
		}
		synctest.Wait()
		w.quiet(t)
		if n := f.encoder.events.Load(); n != 0 {
			t.Errorf("got %d encodings, want none", n)
		}
		if got, want := w.Position().Revision, f.store.Now(); got != want {
			t.Errorf("got revision %d, want %d", got, want)
		}
	})
}
