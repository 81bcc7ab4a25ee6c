package failures

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// command prepares a command of fanoutd with the settings of a server.
func (s *instance) command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(fanoutdproc.Program(t), append(args, s.args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FANOUTD_") })
	return cmd
}

// runs runs a command of fanoutd with the settings of a server, and returns its output.
func (s *instance) runs(t *testing.T, args ...string) string {
	t.Helper()
	out, err := s.command(t, args...).CombinedOutput()
	if err != nil {
		t.Fatalf("fanoutd %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// dataDir returns the data directory of a server.
func (s *instance) dataDir() string {
	return s.args[slices.Index(s.args, "--data-dir")+1]
}

// state returns the values of all objects.
func (s *instance) state(t *testing.T) map[string]string {
	t.Helper()
	values := map[string]string{}
	req := &fanoutv1.ListRequest{Resource: resource}
	for {
		resp, err := s.reads.List(contextFor(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range resp.GetObjects() {
			values[o.GetKey()] = string(o.GetData())
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			return values
		}
	}
}

// killed runs a command of fanoutd, and kills it after a part of the time that it needs. It reports whether the
// command had ended before.
func (s *instance) killed(t *testing.T, after time.Duration, args ...string) (ended bool) {
	t.Helper()
	cmd := s.command(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(after, func() { _ = cmd.Process.Kill() }) // it may have ended
	defer timer.Stop()
	return cmd.Wait() == nil
}

// killedWith runs a command of fanoutd, and kills it when a path exists. It reports whether the command had ended before.
func (s *instance) killedWith(t *testing.T, path string, args ...string) (ended bool) {
	t.Helper()
	cmd := s.command(t, args...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ctx, over := context.WithCancel(contextFor(t))
	done := make(chan error, 1)
	go func() {
		done <- cmd.Wait()
		over()
	}()
	poll.Wait(ctx, func() bool {
		_, err := os.Stat(path)
		return err == nil
	})
	_ = cmd.Process.Kill() // it may have ended
	return <-done == nil
}

// A restore that is killed leaves an empty directory, one in which no server starts, or the whole data.
func TestKilledRestore(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	etcd := loopback.FreeAddress(t)
	source := startFanoutd(t, "--data-dir", filepath.Join(t.TempDir(), "data"), "--embedded-etcd-listen", etcd)
	want := map[string]string{}
	for i := range 200 {
		key, value := fmt.Sprintf("key/%03d", i), strings.Repeat(strconv.Itoa(i%10), 20_000)
		if err := source.put(t, key, value); err != nil {
			t.Fatal(err)
		}
		want[key] = value
	}
	backup := etcdproc.Snapshot(t, etcd)
	source.end(t, syscall.SIGTERM)

	f := newInstance(t, settings(t), "--data-dir", filepath.Join(t.TempDir(), "data"))
	began := time.Now()
	f.runs(t, "restore", backup)
	whole := time.Since(began)
	states := map[string]int{}
	restoring := filepath.Join(f.dataDir(), "etcd.restoring")
	attempt := func(kill func() (ended bool)) {
		if err := os.RemoveAll(f.dataDir()); err != nil {
			t.Fatal(err)
		}
		ended := kill()
		_, err := os.Stat(filepath.Join(f.dataDir(), "etcd"))
		filled := err == nil
		_, err = os.Stat(restoring)
		switch {
		case filled:
			states["filled"]++
			f.start(t)
			if got := f.state(t); !maps.Equal(got, want) {
				t.Errorf("a server has %d objects, want %d", len(got), len(want))
			}
			f.end(t, os.Kill)
			return
		case ended:
			t.Fatal("the command ended without data")
		case err == nil:
			states["interrupted"]++
			status, output := runFanoutd(t, "--data-dir", f.dataDir())
			wantOneLine(t, status, output, "was interrupted: run it again")
		default:
			states["nothing"]++
		}
		f.runs(t, "restore", backup)
	}
	const attempts = 25
	for i := range attempts {
		attempt(func() bool { return f.killed(t, whole*time.Duration(i)/attempts, "restore", backup) })
	}
	// On a busy machine, none of these times may be that of the command.
	poll.Until(t, "a restore was interrupted", func() bool {
		if states["interrupted"] == 0 {
			attempt(func() bool { return f.killedWith(t, restoring, "restore", backup) })
		}
		return states["interrupted"] > 0
	})
	f.start(t)
	if got := f.state(t); !maps.Equal(got, want) {
		t.Errorf("a server has %d objects, want %d", len(got), len(want))
	}
	f.end(t, syscall.SIGTERM)
}

// survivor is what fanoutd recover prints of a server.
var survivor = regexp.MustCompile(`term +(\d+)\n +entry +(\d+) `)

// All three servers are killed in the middle of writes. The one with the newest log is recovered, also if the command
// is killed several times; the others have lost their data. Every write that was acknowledged is there.
func TestRecoverAfterAllWereKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, _ := startServers(t)
	poll.Until(t, "a write is acknowledged", func() bool { return servers[0].put(t, "first", "1") == nil })
	var mu sync.Mutex
	acknowledged := map[string]string{"first": "1"}
	var writers sync.WaitGroup
	for i, s := range servers {
		for w := range 4 {
			writers.Go(func() {
				for n := 0; ; n++ {
					key := fmt.Sprintf("by/%d/%d/%d", i, w, n)
					if s.put(t, key, key) != nil {
						return
					}
					mu.Lock()
					acknowledged[key] = key
					mu.Unlock()
				}
			})
		}
	}
	poll.Until(t, "writes are acknowledged", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(acknowledged) > 200
	})
	for _, s := range servers {
		if err := s.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	for _, s := range servers {
		<-s.exited
		s.conn.Close() // writers do not wait for the next start
	}
	writers.Wait()

	var best *instance
	var highest [2]int
	for _, s := range servers {
		m := survivor.FindStringSubmatch(s.runs(t, "recover"))
		if m == nil {
			t.Fatal("fanoutd recover does not print the log's end")
		}
		term, _ := strconv.Atoi(m[1])
		entry, _ := strconv.Atoi(m[2])
		if at := [2]int{term, entry}; slices.Compare(at[:], highest[:]) > 0 {
			best, highest = s, at
		}
	}
	for _, s := range servers {
		if s != best {
			if err := os.RemoveAll(s.dataDir()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 10 {
		best.killed(t, time.Duration(i)*100*time.Millisecond, "recover", "--yes")
	}
	out, err := best.command(t, "recover", "--yes").CombinedOutput()
	if err != nil && !strings.Contains(string(out), "the only member of its cluster") { // one has ended before
		t.Fatalf("%v\n%s", err, out)
	}
	for _, s := range servers {
		s.conn = dial(t, s.address)
		s.reads, s.writes = fanoutv1.NewFanoutServiceClient(s.conn), fanoutv1.NewStoreServiceClient(s.conn)
		s.launch(t)
	}
	for _, s := range servers {
		s.serves(t)
		got := s.state(t)
		for key, value := range acknowledged {
			if got[key] != value {
				t.Errorf("the acknowledged write of %s is lost", key)
			}
		}
	}
	poll.Until(t, "a write is acknowledged", func() bool { return servers[1].put(t, "last", "1") == nil })
}
