package cluster_test

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

var quiet = slog.New(slog.DiscardHandler)

// encrypted gives servers the same new keyset.
func encrypted(t *testing.T, configs map[string]config.Config) {
	t.Helper()
	content, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, cfg := range configs {
		cfg.KeysetFile = path
		configs[name] = cfg
	}
}

// save writes a snapshot of the etcd of a server to a file.
func save(t *testing.T, cfg config.Config) (path string) {
	t.Helper()
	data, err := etcdClientOf(t, cfg).Snapshot(poll.Context(t))
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	content, err := io.ReadAll(data)
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "backup.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// follower is a subscriber that survives restarts, and records how each stream began.
type follower struct {
	t        *testing.T
	stream   grpc.ServerStreamingClient[fanoutv1.WatchResponse]
	position *fanoutv1.Position
	revision int64 // the highest it has seen
	state    map[string]string
	next     map[string]string // of a RESET that is not complete
	resets   int
}

func follow(t *testing.T) *follower { return &follower{t: t, state: map[string]string{}} }

// connect continues at the position, through a server, once that serves.
func (f *follower) connect(m *machine) {
	f.t.Helper()
	req := &fanoutv1.WatchRequest{Resource: "config"}
	if f.position != nil {
		req.Begin = &fanoutv1.WatchRequest_After{After: f.position}
	}
	var err error
	if f.stream, err = fanoutv1.NewFanoutServiceClient(m.serving(f.t)).Watch(poll.Context(f.t), req); err != nil {
		f.t.Fatal(err)
	}
}

// reaches reads until the state is the wanted one. Revisions never go back.
func (f *follower) reaches(want map[string]string) {
	f.t.Helper()
	for f.next != nil || !maps.Equal(f.state, want) {
		m, err := f.stream.Recv()
		if err != nil {
			f.t.Fatalf("%v; the state is %v, want %v", err, f.state, want)
		}
		if m.GetCatchUp() == fanoutv1.WatchResponse_CATCH_UP_RESET {
			f.resets++
			f.next = map[string]string{}
		}
		state := f.state
		if f.next != nil {
			state = f.next
		}
		for _, e := range m.GetEvents() {
			if o := e.GetObject(); e.GetType() == fanoutv1.Event_TYPE_DELETED {
				delete(state, o.GetKey())
			} else {
				state[o.GetKey()] = o.GetText()
			}
		}
		if m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED && f.next != nil {
			f.state, f.next = f.next, nil
		}
		f.position = m.GetPosition()
		if r := f.position.GetRevision(); f.next == nil && r < f.revision {
			f.t.Fatalf("the revision goes back from %d to %d", f.revision, r)
		} else if f.next == nil {
			f.revision = r
		}
	}
}

// history returns the history of the resource, newest first.
func (m *machine) history(t *testing.T) (lines []string) {
	t.Helper()
	resp, err := fanoutv1.NewFanoutServiceClient(m.serving(t)).History(poll.Context(t), &fanoutv1.HistoryRequest{Resource: "config", Values: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range resp.GetEntries() {
		lines = append(lines, fmt.Sprintf("%d %s %s", e.GetRevision(), e.GetKey(), e.GetObject().GetText()))
	}
	return lines
}

// moveAway moves the data of a stopped server away, as the commands advise.
func moveAway(t *testing.T, cfg config.Config) {
	t.Helper()
	dir := filepath.Join(cfg.DataDir, "etcd")
	if err := os.Rename(dir, dir+".old"); err != nil {
		t.Fatal(err)
	}
}

// A single server is restored with its history and encrypted values. A subscriber starts over and sees the restored
// state; revisions do not go back. The server must be stopped and its directory empty.
func TestRestoreASingleServer(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	cfg := testConfig(t)
	cfg.EmbeddedEtcdListen = loopback.FreeAddress(t)
	configs := map[string]config.Config{"single": cfg}
	encrypted(t, configs)
	cfg = configs["single"]
	m := launch(t, cfg)
	m.put(t, "app/limits", "1")
	m.put(t, "app/limits", "2")
	backup := etcdproc.Snapshot(t, cfg.EmbeddedEtcdListen)
	want := m.history(t)
	m.put(t, "app/limits", "3")
	m.put(t, "app/new", "1")
	subscriber := follow(t)
	subscriber.connect(m)
	subscriber.reaches(map[string]string{"app/limits": "3", "app/new": "1"})
	before := subscriber.position
	if _, err := app.Restore(t.Context(), cfg, backup, quiet); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("beside a running server: got %v", err)
	}
	m.stop(t)
	if _, err := app.Restore(t.Context(), cfg, backup, quiet); err == nil || !strings.Contains(err.Error(), "mv "+cfg.DataDir+"/etcd") {
		t.Errorf("over other data: got %v", err)
	}
	moveAway(t, cfg)
	done, err := app.Restore(t.Context(), cfg, backup, quiet)
	if err != nil || len(done.Others) > 0 || done.Keys == 0 {
		t.Fatalf("got %+v, %v", done, err)
	}

	m = launch(t, cfg)
	resets := subscriber.resets
	subscriber.connect(m)
	subscriber.reaches(map[string]string{"app/limits": "2"})
	if subscriber.resets != resets+1 || subscriber.position.GetEpoch() == before.GetEpoch() || subscriber.position.GetRevision() <= int64(done.Snapshot) {
		t.Errorf("got %d RESETs and position %v after %v", subscriber.resets-resets, subscriber.position, before)
	}
	if got := m.history(t); !slices.Equal(got, want) || len(want) != 2 {
		t.Errorf("got the history %q, want %q", got, want)
	}
	m.put(t, "app/limits", "4")
	subscriber.reaches(map[string]string{"app/limits": "4"})
	if got := m.history(t); len(got) != 3 || !slices.Equal(got[1:], want) {
		t.Errorf("got the history %q", got)
	}
	m.stop(t)
}

// Three servers are restored from a snapshot of one of them, with history and encrypted values: one is filled, and the
// others join it without data. One that still has the old data is refused, and says what to do.
func TestRestoreACluster(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	encrypted(t, configs)
	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		m.says(t, "this server votes")
	}
	running["node-1"].put(t, "app/limits", "1")
	running["node-3"].get(t, "app/limits") // a snapshot of its etcd may lack what it has not received yet
	backup := save(t, configs["node-3"])
	want := running["node-1"].history(t)
	running["node-1"].put(t, "app/limits", "2")
	subscriber := follow(t)
	subscriber.connect(running["node-3"])
	subscriber.reaches(map[string]string{"app/limits": "2"})

	running["node-2"].stop(t)
	moveAway(t, configs["node-2"])
	if _, err := app.Restore(t.Context(), configs["node-2"], backup, quiet); err == nil || !strings.Contains(err.Error(), " runs with the data of cluster") { // either of them
		t.Errorf("beside running servers: got %v", err)
	}
	delete(running, "node-2")
	stopAll(t, running)
	done, err := app.Restore(t.Context(), configs["node-2"], backup, quiet)
	if err != nil || !slices.Equal(done.Others, []string{"node-1", "node-3"}) || done.Majority != 2 {
		t.Fatalf("got %+v, %v", done, err)
	}

	running = launchAll(t, configs, "node-2")
	if got := running["node-2"].get(t, "app/limits"); got != "1" {
		t.Errorf("got %q", got)
	}
	launch(t, configs["node-1"]).refuses(t, "node-2 belongs to cluster", "mv "+configs["node-1"].DataDir+"/etcd ")
	for _, name := range []string{"node-1", "node-3"} {
		moveAway(t, configs[name])
		running[name] = launch(t, configs[name])
	}
	resets := subscriber.resets
	subscriber.connect(running["node-3"])
	subscriber.reaches(map[string]string{"app/limits": "1"})
	if subscriber.resets != resets+1 {
		t.Errorf("got %d RESETs", subscriber.resets-resets)
	}
	running["node-1"].put(t, "app/limits", "3")
	subscriber.reaches(map[string]string{"app/limits": "3"})
	for name, m := range running {
		if got := m.history(t); len(got) != len(want)+1 || !slices.Equal(got[1:], want) {
			t.Errorf("%s has the history %q, want %q before the last write", name, got, want)
		}
	}
	stopAll(t, running)
}

// After the directories of two servers are gone, the third one continues with its data, history and encrypted values
// included, and the others join it. Its former files stay.
func TestRecoverWithoutAMajority(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	configs := machines(t, "node-1", "node-2", "node-3")
	encrypted(t, configs)
	running := launchAll(t, configs, "node-1", "node-2", "node-3")
	for _, m := range running {
		m.says(t, "this server votes")
	}
	for i := range 20 {
		running["node-1"].put(t, "app/limits", fmt.Sprint(i))
	}
	subscriber := follow(t)
	subscriber.connect(running["node-3"])
	subscriber.reaches(map[string]string{"app/limits": "19"})
	want := running["node-3"].history(t)
	if _, err := app.InspectSurvivor(t.Context(), configs["node-3"], quiet); err == nil || !strings.Contains(err.Error(), "runs with the data of cluster") {
		t.Errorf("beside running servers: got %v", err)
	}
	stopAll(t, running)
	for _, name := range []string{"node-1", "node-2"} {
		if err := os.RemoveAll(configs[name].DataDir); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := app.Recover(t.Context(), configs["node-1"], quiet); err == nil || !strings.Contains(err.Error(), "has no data") {
		t.Errorf("without data: got %v", err)
	}
	s, err := app.InspectSurvivor(t.Context(), configs["node-3"], quiet)
	if err != nil || s.Name != "node-3" || !slices.Equal(s.Members, []string{"node-1", "node-2", "node-3"}) || s.Term == 0 || s.Entry < s.Applied || s.Revision == 0 {
		t.Errorf("got %+v, %v", s, err)
	}
	done, err := app.Recover(t.Context(), configs["node-3"], quiet)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(done.Former, "member", "snap", "db")); err != nil {
		t.Error(err)
	}
	if _, err := app.Recover(t.Context(), configs["node-3"], quiet); err == nil || !strings.Contains(err.Error(), "the only member") {
		t.Errorf("a second time: got %v", err)
	}

	running = launchAll(t, configs, "node-3", "node-1", "node-2")
	resets := subscriber.resets
	running["node-1"].put(t, "app/new", "1")
	subscriber.connect(running["node-2"])
	subscriber.reaches(map[string]string{"app/limits": "19", "app/new": "1"})
	if subscriber.resets != resets+1 {
		t.Errorf("got %d RESETs", subscriber.resets-resets)
	}
	for name, m := range running {
		if got := m.history(t); len(got) != len(want)+1 || !slices.Equal(got[1:], want) {
			t.Errorf("%s has the history %q, want %q before the last write", name, got, want)
		}
	}
	stopAll(t, running)
}
