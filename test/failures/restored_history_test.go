package failures

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// putBecause writes with a message, and returns the line of the history that the write must have. It tries again
// while etcd is away.
func (s *instance) putBecause(t *testing.T, key, text, message string) string {
	t.Helper()
	ctx := contextFor(t)
	for {
		resp, err := s.writes.Put(ctx, &fanoutv1.PutRequest{
			Resource: resource, Put: &fanoutv1.PutOperation{Key: key, Value: &fanoutv1.PutOperation_Text{Text: text}}, Message: message,
		})
		if status.Code(err) == codes.Unavailable {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Sprintf("KIND_PUT %d %s %s: %s", resp.GetRevision(), key, text, message)
	}
}

// historyLines returns the history of the resource, oldest first. Each page begins at a revision.
func (s *instance) historyLines(t *testing.T) (lines []string) {
	t.Helper()
	req := &fanoutv1.HistoryRequest{Resource: resource, Values: true, PageSize: 2}
	for {
		resp, err := s.reads.History(contextFor(t), req)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range resp.GetEntries() {
			lines = append(lines, fmt.Sprintf("%s %d %s %s: %s", e.GetKind(), e.GetRevision(), e.GetKey(), e.GetObject().GetText(), e.GetMessage()))
		}
		if req.PageToken = resp.GetNextPageToken(); req.GetPageToken() == "" {
			slices.Reverse(lines)
			return lines
		}
	}
}

// TestBackupHasObjectsAndHistory restores etcd as docs/tasks/backup.md describes. Objects and history are those of the
// backup, and belong together. Servers that have run all the time continue the history without a gap.
func TestBackupHasObjectsAndHistory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	// fill writes what the backup has, and returns the lines of the history.
	fill := func(t *testing.T, f *instance) (want []string) {
		return append(want, f.putBecause(t, "a", "1", "first"), f.putBecause(t, "b", "1", "other"), f.putBecause(t, "a", "2", "second"))
	}
	compare := func(t *testing.T, want []string, all ...*instance) {
		t.Helper()
		for i, f := range all {
			if got := f.historyLines(t); !slices.Equal(got, want) {
				t.Errorf("server %d has the history\n%q\nwant\n%q", i, got, want)
			}
			got, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "a", LastChange: true})
			if err != nil {
				t.Fatal(err)
			}
			line := fmt.Sprintf("KIND_PUT %d a %s: %s", got.GetObject().GetModRevision(), got.GetObject().GetText(), got.GetLastChange().GetMessage())
			if !slices.Contains(want, line) {
				t.Errorf("server %d has the object %q, which is not in the history", i, line)
			}
		}
	}
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		data, address := filepath.Join(t.TempDir(), "data"), loopback.FreeAddress(t)
		config := historyConfig(t)
		f := startFanoutd(t, append(config, "--data-dir", data, "--embedded-etcd-listen", address)...)
		want := fill(t, f)
		backup := etcdproc.Snapshot(t, address)
		f.putBecause(t, "a", "3", "lost")
		f.end(t, syscall.SIGTERM)
		if err := os.RemoveAll(filepath.Join(data, "etcd")); err != nil {
			t.Fatal(err)
		}
		etcdproc.Restore(t, backup, filepath.Join(data, "etcd"))
		f.start(t)
		compare(t, want, f)
		want = append(want, f.putBecause(t, "a", "4", "after the restore"), f.putBecause(t, "c", "1", "after the restore"))
		compare(t, want, f)
	})
	for name, flags := range map[string][]string{
		"external":                       nil,
		"external with higher revisions": {"--bump-revision", "1000000000", "--mark-compacted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := etcdproc.StartMember(t, "http")
			config := append(historyConfig(t), over(m.Address)...)
			one, two := startFanoutd(t, config...), startFanoutd(t, config...)
			want := fill(t, one)
			backup := m.Snapshot(t)
			for range 5 {
				one.putBecause(t, "a", "3", "lost")
				two.putBecause(t, "lost", "1", "lost")
			}
			m.Kill(t)
			m.Restore(t, backup, flags...)
			m.Start(t)
			// The servers may not have noticed yet.
			for i := range 10 {
				want = append(want, one.putBecause(t, fmt.Sprint("new", i), "1", "after the restore"), two.putBecause(t, "a", fmt.Sprint(4+i), "after the restore"))
			}
			poll.Until(t, "both servers have noticed the restore", func() bool {
				for _, f := range []*instance{one, two} {
					got, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "a"})
					if err != nil || got.GetObject().GetText() != "13" {
						return false
					}
				}
				return true
			})
			compare(t, want, one, two)
		})
	}
}

// historyConfig returns the arguments for a server whose resource has a history.
func historyConfig(t *testing.T) []string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd.yaml")
	if err := os.WriteFile(path, []byte("resources: [{name: config, history: {}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"--config", path}
}
