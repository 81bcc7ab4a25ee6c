package client_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// stateAt5 leads to the state of the tests in this file: a is 1, the newest version of b
// cannot be decoded, and no version of c can.
var stateAt5 = []message{
	reset(), part(0, withValue(added("a", 1), "1"), withValue(added("b", 2), "2"), withValue(added("c", 3), "no number")), synced(4),
	live(5, withValue(modified("b", 5), "no number")),
}

// unreachable returns a server that ends every stream.
func unreachable() *scriptedServer { return &scriptedServer{streams: []stream{{end: errLost}}} }

// runFor runs an informer for some time. It returns the calls of its handler and its
// last state.
func runFor(t *testing.T, s *scriptedServer, d time.Duration, opts ...client.InformerOption) (calls, state []string) {
	t.Helper()
	inf := client.NewInformer(connectTo(t, s), number, opts...)
	r := newRecorder()
	inf.AddHandler(r.handler())
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	if err := inf.Run(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the informer ended with %v, want %v", err, context.DeadlineExceeded)
	}
	return r.all(), items(inf.Lister())
}

// withFile runs a test in a bubble, with the path of a file that does not exist yet.
func withFile(t *testing.T, f func(t *testing.T, path string)) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "good")
	synctest.Test(t, func(t *testing.T) { f(t, path) })
}

func TestInformerBeginsWithTheSavedState(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, good)

		// Without a server, the saved state is there at once, and stays stale.
		inf := client.NewInformer(connectTo(t, unreachable()), number, good)
		calls := newRecorder()
		inf.AddHandler(calls.handler())
		run(t, inf)
		if err := inf.WaitForState(t.Context()); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"a=1", "b=2!"}, items(inf.Lister())); diff != "" {
			t.Errorf("state: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"+a=1", "!b", "+b=2", "!c"}, calls.all()); diff != "" {
			t.Errorf("handler calls: -want +got:\n%s", diff)
		}
		if p := inf.Lister().Position(); !inf.Lister().Stale() || formatPosition(p) != "e/5" {
			t.Errorf("got position %v and stale %v, want e/5 and true", p, inf.Lister().Stale())
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if err := inf.WaitForSync(ctx); err == nil {
			t.Error("WaitForSync succeeded without a server")
		}

		// With a server, the informer resumes at the saved position.
		s := &scriptedServer{streams: []stream{{
			paced:    true, // otherwise a busy machine merges the changes with the calls for the saved state
			messages: []message{replay(5), part(6, withValue(modified("a", 6), "6"), deleted("b", 6)), synced(6)},
		}}}
		resumed, state := runFor(t, s, 20*time.Second, good)
		if diff := cmp.Diff([]string{"e/5"}, s.starts()); diff != "" {
			t.Errorf("starts: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"+a=1", "!b", "+b=2", "!c", "*a=1>6", "-b=2"}, resumed); diff != "" {
			t.Errorf("handler calls: -want +got:\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a=6"}, state); diff != "" {
			t.Errorf("state: -want +got:\n%s", diff)
		}
	})
}

func TestTheLargestLimitIsNoLimit(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, math.MaxInt64)
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, good)
		calls, state := runFor(t, unreachable(), time.Second, good)
		if diff := cmp.Diff([]string{"a=1", "b=2!"}, state); diff != "" {
			t.Errorf("state after calls %q: -want +got:\n%s", calls, diff)
		}
	})
}

// A program with a newer decoder can use what an older program could not decode.
func TestTheSavedStateHasWhatCouldNotBeDecoded(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, good)
		inf := client.NewInformer(connectTo(t, unreachable()), client.ObjectDecoder(), good)
		run(t, inf)
		if err := inf.WaitForState(t.Context()); err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for i := range inf.Lister().List("") {
			got[i.Object.Key] = string(i.Value.Value)
		}
		if diff := cmp.Diff(map[string]string{"a": "1", "b": "no number", "c": "no number"}, got); diff != "" {
			t.Errorf("values: -want +got:\n%s", diff)
		}
	})
}

func TestADamagedFileIsReportedAndNotUsed(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, client.LastKnownGood(path, 1<<20))
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		wantRefused := func(name string, content []byte, opts ...client.InformerOption) {
			t.Helper()
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			if opts == nil {
				opts = []client.InformerOption{client.LastKnownGood(path, int64(len(whole)))}
			}
			calls, state := runFor(t, unreachable(), time.Millisecond, opts...)
			if len(calls) != 1 || !strings.Contains(calls[0], "cannot use the saved state in "+path) || state != nil {
				t.Errorf("%s: got handler calls %q and state %q, want one error and no state", name, calls, state)
			}
		}
		for at := range whole {
			content := bytes.Clone(whole)
			content[at] ^= 0x10
			wantRefused("a damaged byte", content)
			if at > 0 {
				wantRefused("a shorter file", whole[:at])
				wantRefused("a file without its beginning", whole[at:])
			}
		}
		wantRefused("an empty file", nil)
		wantRefused("a longer file", append(bytes.Clone(whole), 0), client.LastKnownGood(path, 1<<20))
		wantRefused("a file that is too large", whole, client.LastKnownGood(path, int64(len(whole))-1))
		wantRefused("a file of other objects", whole, client.LastKnownGood(path, 1<<20), client.Prefix("x"))
		if calls, _ := runFor(t, unreachable(), time.Millisecond, client.LastKnownGood(path, int64(len(whole)))); slices.ContainsFunc(calls, func(l string) bool { return strings.HasPrefix(l, "! ") }) {
			t.Errorf("an intact file: got handler calls %q, want no error", calls)
		}
		// A folder that is not there can be neither read nor written.
		calls, _ := runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second,
			client.LastKnownGood(filepath.Join(filepath.Dir(path), "none", "good"), 1<<20))
		if !slices.ContainsFunc(calls, func(l string) bool { return strings.Contains(l, "cannot save the state") }) {
			t.Errorf("a file in no folder: got handler calls %q, want an error of the attempt to save", calls)
		}
	})
}

// Run fails at once, because saving would turn a device into a file, and would wait for ever for a named pipe.
func TestAPathThatIsNoRegularFileIsRefused(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe")
	if err := exec.CommandContext(t.Context(), "mkfifo", pipe).Run(); err != nil {
		t.Fatal(err)
	}
	for name, path := range map[string]string{"a device": os.DevNull, "a named pipe": pipe, "a folder": t.TempDir()} {
		synctest.Test(t, func(t *testing.T) {
			s := &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}
			inf := client.NewInformer(connectTo(t, s), number, client.LastKnownGood(path, 1<<20))
			registration := inf.AddHandler(newRecorder().handler())
			if err := inf.Run(t.Context()); err == nil || !strings.Contains(err.Error(), path+" is "+name) {
				t.Errorf("%s: got %v", name, err)
			}
			if err := inf.WaitForSync(t.Context()); err == nil || !strings.Contains(err.Error(), path+" is "+name) {
				t.Errorf("%s: WaitForSync: got %v", name, err)
			}
			<-registration.Done()
			if starts := s.starts(); len(starts) > 0 {
				t.Errorf("%s: the server got requests: %q", name, starts)
			}
		})
	}
}

func TestAStateAboveTheLimitIsNotSaved(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		calls, _ := runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, time.Hour, client.LastKnownGood(path, 100))
		errs := slices.DeleteFunc(slices.Clone(calls), func(l string) bool { return !strings.Contains(l, "cannot save the state") })
		if len(errs) != 1 {
			t.Errorf("got handler calls %q, want one error", calls)
		}
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("got %v, want no file", err)
		}
	})
}

func TestTheStateIsSavedWhileTheInformerRuns(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		s := &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}
		inf := client.NewInformer(connectTo(t, s), number, client.LastKnownGood(path, 1<<20))
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
			t.Errorf("got mode %o, want 600: only the owner may read the file", mode)
		}
	})
}

func TestAReplacedFileKeepsItsMode(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		good := client.LastKnownGood(path, 1<<20)
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5, paced: true}}}, 20*time.Second, good)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o640); err != nil {
			t.Fatal(err)
		}
		runFor(t, &scriptedServer{streams: []stream{{messages: []message{replay(5), synced(9)}}}}, 20*time.Second, good)
		after, err := os.ReadFile(path)
		if err != nil || bytes.Equal(before, after) {
			t.Errorf("the file was not replaced; reading it returned %v", err)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		if mode := info.Mode().Perm(); mode != 0o640 {
			t.Errorf("got mode %o, want 640", mode)
		}
	})
}
