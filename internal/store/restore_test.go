package store_test

import (
	"crypto/sha256"
	"os"
	"path/filepath"
	"strings"
	"testing"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// backupOf returns a snapshot of a store with one object.
func backupOf(t *testing.T) []byte {
	t.Helper()
	address := loopback.FreeAddress(t)
	s := openListening(t, address)
	defer closeStore(t, s)
	commit(t, s.Plain("test", prefix), put("k", "v"))
	content, err := os.ReadFile(etcdproc.Snapshot(t, address))
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// A file that is not a whole, undamaged snapshot is refused, and the data directory stays empty.
func TestRestoreRefusesWhatIsNotAWholeSnapshot(t *testing.T) {
	whole := backupOf(t)
	changed := append([]byte(nil), whole...)
	changed[len(changed)/2] ^= 1
	text := []byte(strings.Repeat("x", 4096))
	sum := sha256.Sum256(text)
	for name, tt := range map[string]struct {
		content []byte
		says    string
	}{
		"cut short":               {whole[:len(whole)-100], "not a whole snapshot"},
		"cut short by a page":     {whole[:len(whole)-4096], "damaged"},
		"a changed bit":           {changed, "the snapshot is damaged"},
		"a copy of the database":  {whole[:len(whole)-sha256.Size], "not a whole snapshot"},
		"empty":                   {nil, "not a whole snapshot"},
		"a text with a good hash": {append(text, sum[:]...), "damaged"},
		"missing":                 {says: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			file, dir := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "data")
			if name != "missing" {
				if err := os.WriteFile(file, tt.content, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			_, err := store.Restore(t.Context(), store.EmbeddedConfig{Dir: dir}, file, quiet())
			if err == nil || !strings.Contains(err.Error(), tt.says) || !strings.Contains(err.Error(), file) {
				t.Errorf("got %v, want an error with %q and the name of the file", err, tt.says)
			}
			entries, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				if e.Name() != "lock" {
					t.Errorf("%s is left", e.Name())
				}
			}
		})
	}
}

// A server does not start where a restore was interrupted, because it would begin without data. The
// next restore replaces what is left.
func TestInterruptedRestoreDoesNotStart(t *testing.T) {
	file, dir := filepath.Join(t.TempDir(), "backup.db"), filepath.Join(t.TempDir(), "data")
	if err := os.WriteFile(file, backupOf(t), 0o600); err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(dir, "etcd.restoring")
	if err := os.MkdirAll(filepath.Join(left, "member"), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := store.OpenEmbedded(contextFor(t), store.EmbeddedConfig{Dir: dir}, quiet())
	if err == nil || !strings.Contains(err.Error(), "was interrupted") || !strings.Contains(err.Error(), left) {
		t.Errorf("start: got %v", err)
	}
	if _, err := store.Identify(dir); err == nil || !strings.Contains(err.Error(), "was interrupted") {
		t.Errorf("start in a cluster: got %v", err)
	}
	done, err := store.Restore(t.Context(), store.EmbeddedConfig{Dir: dir}, file, quiet())
	if err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	defer closeStore(t, s)
	c := s.Plain("test", prefix)
	if got := dump(t, c); got["k"] != "v" {
		t.Errorf("got %v", got)
	}
	if r := commit(t, c, put("k", "w")); r <= done.Revision {
		t.Errorf("the first write has revision %d, want more than %d", r, done.Revision)
	}
}

// dump returns the values of a collection.
func dump(t *testing.T, c *store.Collection) map[string]string {
	t.Helper()
	now, err := c.Revision(contextFor(t))
	if err != nil {
		t.Fatal(err)
	}
	page, _, err := c.List(contextFor(t), now, object.Scope{}, "", 100)
	if err != nil {
		t.Fatal(err)
	}
	values := map[string]string{}
	for _, r := range page {
		values[string(r.Key)] = string(r.Value)
	}
	return values
}

// The snapshot of an external etcd with authentication and a space alarm makes an embedded etcd that accepts
// writes, in a cluster and an epoch of its own.
func TestRestoreAnExternalEtcd(t *testing.T) {
	m := etcdproc.StartMember(t, "http")
	epoch := epochOf(t, replica(t, m))
	client := etcdClient(t, m.Address)
	ctx := contextFor(t)
	if _, err := client.Put(ctx, prefix+"k", "v"); err != nil {
		t.Fatal(err)
	}
	status, err := client.Status(ctx, m.Address)
	if err != nil {
		t.Fatal(err)
	}
	file := etcdproc.Snapshot(t, m.Address) // for the id of the member
	_, err = pb.NewMaintenanceClient(client.ActiveConnection()).Alarm(ctx, &pb.AlarmRequest{
		Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_NOSPACE, MemberID: status.Header.GetMemberId(),
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { _, err := client.UserAdd(ctx, "root", "secret"); return err },
		func() error { _, err := client.UserGrantRole(ctx, "root", "root"); return err },
		func() error { _, err := client.AuthEnable(ctx); return err },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
	}
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{m.Address}, Username: "root", Password: "secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	data, err := root.Snapshot(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer data.Close()
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadFrom(data); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}

	dir := filepath.Join(t.TempDir(), "data")
	done, err := store.Restore(t.Context(), store.EmbeddedConfig{Dir: dir}, file, quiet())
	if err != nil || !done.AuthenticationOff {
		t.Fatalf("got %+v, %v", done, err)
	}
	if _, err := store.Restore(t.Context(), store.EmbeddedConfig{Dir: dir}, file, quiet()); err == nil || !strings.Contains(err.Error(), "has data") {
		t.Errorf("a second time: got %v", err)
	}
	s := open(t, dir)
	defer closeStore(t, s)
	c := s.Plain("test", prefix)
	if got := dump(t, c); got["k"] != "v" {
		t.Errorf("got %v", got)
	}
	commit(t, c, put("k", "w"))
	if now := epochOf(t, c); now == epoch || now[:16] == epoch[:16] {
		t.Errorf("the epoch was %s and is %s", epoch, now)
	}
}
