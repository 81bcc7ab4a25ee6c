package client_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// live5 is the state of the scripts in this file: a is 1, b cannot be decoded any
// more, c could never be.
var live5 = []message{
	reset(), part(0, with(added("a", 1), "1"), with(added("b", 2), "2"), with(added("c", 3), "no number")), synced(4),
	live(5, with(modified("b", 5), "no number")),
}

// nobody is a script without servers.
func nobody() *script { return &script{acts: []act{{end: lost}}} }

// session runs an informer with a file for some time and returns what it told.
func session(t *testing.T, s *script, d time.Duration, opts ...client.InformerOption) (told, state []string) {
	t.Helper()
	inf := client.NewInformer(play(t, s), number, opts...)
	j := newJournal()
	inf.AddHandler(j.handler())
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := inf.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the informer ended: %v", err)
	}
	return j.all(), items(inf.Lister())
}

// in runs a test in a bubble with a file.
func in(t *testing.T, f func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "good")
	synctest.Test(t, func(t *testing.T) { f(t, path) })
}

func TestTheLastStateOutlivesTheServers(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		session(t, &script{acts: []act{{messages: live5}}}, 20*time.Second, good)

		// There is no server, and nobody waits for one.
		inf := client.NewInformer(play(t, nobody()), number, good)
		told := newJournal()
		inf.AddHandler(told.handler())
		run(t, inf)
		if err := inf.WaitForState(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a=1", "b=2!"}, items(inf.Lister())); diff != "" {
			t.Errorf("state: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"!b", "!c", "+a=1", "+b=2"}, told.all()); diff != "" {
			t.Errorf("told: -want +got:\n%s", diff)
		}
		if p := inf.Lister().Position(); !inf.Lister().Stale() || show(p) != "e/5" {
			t.Errorf("the state is of %v and stale is %v", p, inf.Lister().Stale())
		}
		late, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForSync(late); err == nil {
			t.Error("nobody has confirmed that")
		}

		// With a server it goes on where it was.
		s := &script{acts: []act{{messages: []message{replay(5), part(6, with(modified("a", 6), "6"), deleted("b", 6)), synced(6)}}}}
		lines, state := session(t, s, 20*time.Second, good)
		if diff := cmp.Diff([]string{"e/5"}, s.begins()); diff != "" {
			t.Errorf("began: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"!b", "!c", "+a=1", "+b=2", "*a=1>6", "-b=2"}, lines); diff != "" {
			t.Errorf("told: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a=6"}, state); diff != "" {
			t.Errorf("state: -want +got:\n%s", diff)
		}
	})
}

// No bound is a bound, too.
func TestTheLastStateMayBeAsLargeAsItLikes(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, math.MaxInt64)
		session(t, &script{acts: []act{{messages: live5}}}, 20*time.Second, good)
		told, state := session(t, nobody(), time.Second, good)
		if diff := cmp.Diff([]string{"a=1", "b=2!"}, state); diff != "" {
			t.Errorf("told %q; -want +got:\n%s", told, diff)
		}
	})
}

// A program with a newer decoder gets what an older one could not decode.
func TestTheLastStateHasWhatCouldNotBeDecoded(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		session(t, &script{acts: []act{{messages: live5}}}, 20*time.Second, good)
		inf := client.NewInformer(play(t, nobody()), client.ObjectDecoder(), good)
		run(t, inf)
		if err := inf.WaitForState(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i := range inf.Lister().List("") {
			got[i.Object.Key] = string(i.Value.Value)
		}
		if diff := cmp.Diff(map[string]string{"a": "1", "b": "no number", "c": "no number"}, got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// Whatever happens to the file: it is reported, and the informer goes on without.
func TestADamagedFileIsNotUsed(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		session(t, &script{acts: []act{{messages: live5}}}, 20*time.Second, client.LastKnownGood(path, 1<<20))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		refused := func(what string, content []byte, opts ...client.InformerOption) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if opts == nil {
				opts = []client.InformerOption{client.LastKnownGood(path, int64(len(whole)))}
			}
			told, state := session(t, nobody(), time.Millisecond, opts...)
			if len(told) != 1 || !strings.Contains(told[0], path+" is not used") || state != nil {
				t.Errorf("%s: told %q, state %q", what, told, state)
			}
		}
		for at := range whole {
			content := bytes.Clone(whole)
			content[at] ^= 0x10
			refused("a damaged byte", content)
			if at > 0 {
				refused("a shorter file", whole[:at])
				refused("a file without its beginning", whole[at:])
			}
		}
		refused("an empty file", nil)
		refused("a longer file", append(bytes.Clone(whole), 0), client.LastKnownGood(path, 1<<20))
		refused("a file that is too large", whole, client.LastKnownGood(path, int64(len(whole))-1))
		refused("a file of other objects", whole, client.LastKnownGood(path, 1<<20), client.Prefix("x"))
		if told, _ := session(t, nobody(), time.Millisecond, client.LastKnownGood(path, int64(len(whole)))); slices.ContainsFunc(told, func(l string) bool { return strings.HasPrefix(l, "! ") }) {
			t.Errorf("as it was: %q", told)
		}
		// A folder cannot be read, nor replaced.
		told, _ := session(t, &script{acts: []act{{messages: live5}}}, 20*time.Second, client.LastKnownGood(filepath.Dir(path), 1<<20))
		if len(told) < 2 || !strings.Contains(told[0], "is not used") || !strings.Contains(told[len(told)-1], "is not written") {
			t.Errorf("told %q of a folder", told)
		}
	})
}

func TestALargeStateIsNotSaved(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		told, _ := session(t, &script{acts: []act{{messages: live5}}}, time.Hour, client.LastKnownGood(path, 100))
		reports := slices.DeleteFunc(told, func(l string) bool { return !strings.Contains(l, "is not written") })
		if len(reports) != 1 {
			t.Errorf("told %q", told)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the file: %v", err)
		}
	})
}

// The file is written while the informer runs, not too often, and nobody else can
// read it.
func TestStatesAreSavedNowAndThen(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		s := &script{acts: []act{{messages: live5}}}
		inf := client.NewInformer(play(t, s), number, client.LastKnownGood(path, 1<<20))
		run(t, inf)
		if err := inf.WaitForSync(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o600 {
			t.Errorf("the mode of the file is %o", mode)
		}
	})
}

// Whoever lets others read the file does so for good.
func TestTheFileKeepsItsMode(t *testing.T) {
	in(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		session(t, &script{acts: []act{{messages: live5}}}, 20*time.Second, good)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		session(t, &script{acts: []act{{messages: []message{replay(5), synced(9)}}}}, 20*time.Second, good)
		after, err := os.ReadFile(path)
		if err != nil || bytes.Equal(before, after) {
			t.Errorf("the file was not written: %v", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o640 {
			t.Errorf("the mode of the file is %o", mode)
		}
	})
}
