package failures

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	bolt "go.etcd.io/bbolt"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// runFanoutd runs fanoutd until it exits, and returns its status and output.
func runFanoutd(t *testing.T, args ...string) (status int, output string) {
	t.Helper()
	ctx, cancel := context.WithCancel(contextFor(t))
	defer cancel()
	args = append([]string{"--config", settings(t), "--listen", loopback.FreeAddress(t), "--admin-listen", ""}, args...)
	cmd := exec.CommandContext(ctx, fanoutdproc.Program(t), args...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "FANOUTD_") })
	out, err := cmd.CombinedOutput()
	if ctx.Err() != nil {
		t.Fatalf("fanoutd has not exited after %v:\n%s", poll.Patience, out)
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode(), string(out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return 0, string(out)
}

// wantOneLine checks that fanoutd has exited with status 1 and one line that contains the
// text.
func wantOneLine(t *testing.T, status int, output, text string) {
	t.Helper()
	lines := slices.DeleteFunc(strings.Split(strings.TrimSpace(output), "\n"), func(line string) bool {
		return strings.Contains(line, "level=INFO") // such as the limit of open files
	})
	if status != 1 || len(lines) != 1 || !strings.HasPrefix(lines[0], "fanoutd: ") || !strings.Contains(lines[0], text) {
		t.Errorf("got status %d and the output\n%s\nwant status 1 and one line with %q", status, output, text)
	}
}

// TestDamagedDataDirectory starts fanoutd with data directories that etcd cannot use. Each
// is one clear line, and status 1.
func TestDamagedDataDirectory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	good := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", good)
	for i := range 40 {
		if err := f.put(t, fmt.Sprint(i), strings.Repeat("x", 1_000_000)); err != nil {
			t.Fatal(err)
		}
	}
	f.end(t, syscall.SIGTERM)
	db := func(dir string) string { return filepath.Join(dir, "etcd/member/snap/db") }
	logs := func(t *testing.T, dir string) []string {
		names, err := filepath.Glob(filepath.Join(dir, "etcd/member/wal/*.wal"))
		if err != nil || len(names) < 3 {
			t.Fatalf("got %d files of the write-ahead log, %v, want at least 3", len(names), err)
		}
		return names
	}
	remove := func(t *testing.T, paths ...string) {
		for _, path := range paths {
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
	}
	inDatabase := func(t *testing.T, dir, bucket, key, value string) {
		database, err := bolt.Open(db(dir), 0o600, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = database.Update(func(tx *bolt.Tx) error { return tx.Bucket([]byte(bucket)).Put([]byte(key), []byte(value)) })
		if err := errors.Join(err, database.Close()); err != nil {
			t.Fatal(err)
		}
	}
	const page = 4096
	for name, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"truncated database":              {func(t *testing.T, dir string) { truncate(t, db(dir), 2) }, "is damaged, restore a backup"},
		"short database":                  {func(t *testing.T, dir string) { truncate(t, db(dir), 1<<20) }, "is damaged, restore a backup"},
		"damaged meta pages":              {func(t *testing.T, dir string) { overwriteFrom(t, db(dir), 0, 2*page) }, "is damaged, restore a backup"},
		"damaged pages":                   {func(t *testing.T, dir string) { overwriteFrom(t, db(dir), 2*page, 1<<40) }, "is damaged, restore a backup"},
		"pages that point beyond the end": {func(t *testing.T, dir string) { linkBeyondEnd(t, db(dir), page) }, "is damaged, restore a backup"},
		"missing database":                {func(t *testing.T, dir string) { remove(t, db(dir)) }, "is missing: restore a backup"},
		"missing log":                     {func(t *testing.T, dir string) { remove(t, logs(t, dir)...) }, "is missing: restore a backup"},
		"missing newest log":              {func(t *testing.T, dir string) { remove(t, logs(t, dir)[1:]...) }, "files are missing, restore a backup"},
		"missing oldest log":              {func(t *testing.T, dir string) { remove(t, logs(t, dir)[0]) }, "files are missing, restore a backup"},
		"gap in the log":                  {func(t *testing.T, dir string) { remove(t, logs(t, dir)[1]) }, "has no file between"},
		"damaged log":                     {func(t *testing.T, dir string) { overwriteFrom(t, logs(t, dir)[0], 1<<20, page) }, "is damaged, restore a backup"},
		"newer version":                   {func(t *testing.T, dir string) { inDatabase(t, dir, "meta", "storageVersion", "3.99.0") }, "was written by etcd 3.99, which is newer"},
		"member of a cluster": {func(t *testing.T, dir string) {
			inDatabase(t, dir, "members", "0000000000000001", `{"id":1,"peerURLs":["http://127.0.0.1:1"],"name":"other"}`)
		}, "a member of a cluster of 2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			if err := os.CopyFS(dir, os.DirFS(good)); err != nil {
				t.Fatal(err)
			}
			c.damage(t, dir)
			status, output := runFanoutd(t, "--data-dir", dir)
			wantOneLine(t, status, output, c.want)
		})
	}
}

// A crash may leave a file with a few records that was to become the next one of the write-ahead
// log. etcd would overwrite its beginning only, and read the rest after the next crash.
func TestUnfinishedLogFiles(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	f := startFanoutd(t, "--data-dir", dir)
	f.end(t, syscall.SIGKILL)
	for _, name := range []string{"0.tmp", "1.tmp"} {
		if err := os.WriteFile(filepath.Join(dir, "etcd/member/wal", name), bytes.Repeat([]byte{8, 0, 0, 0, 0, 0, 0, 0}, 2<<20), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.start(t)
	for i := range 40 {
		if err := f.put(t, fmt.Sprint(i), strings.Repeat("x", 1_000_000)); err != nil {
			t.Fatal(err)
		}
	}
	f.end(t, syscall.SIGKILL)
	f.start(t)
	if _, err := f.reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "39"}); err != nil {
		t.Error(err)
	}
}

// A directory that contains etcd's data itself is not taken for an empty one.
func TestDataDirectoryOfEtcdItself(t *testing.T) {
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "member", "snap"), 0o700); err != nil {
		t.Fatal(err)
	}
	status, output := runFanoutd(t, "--data-dir", dir)
	wantOneLine(t, status, output, "data directory of etcd")
}

// The files in testdata/etcd-3.5 were written by etcd 3.5.35, which was stopped a few seconds
// after its first start. The space that it had allocated in advance was cut off.
func TestDataDirectoryOfAnOlderEtcd(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	if err := os.CopyFS(filepath.Join(dir, "etcd"), os.DirFS("testdata/etcd-3.5")); err != nil {
		t.Fatal(err)
	}
	status, output := runFanoutd(t, "--data-dir", dir)
	wantOneLine(t, status, output, "was written by etcd 3.5, which the embedded etcd 3.7 cannot read: start etcd 3.6 with it once")
}

// truncate shortens a file to a part of its size.
func truncate(t *testing.T, path string, part int64) {
	t.Helper()
	info, err := os.Stat(path)
	if err == nil {
		err = os.Truncate(path, info.Size()/part)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// linkBeyondEnd makes the inner pages of a database point to pages beyond its end.
func linkBeyondEnd(t *testing.T, path string, page int) {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// A page begins with its id (8 bytes), kind (2; 1 is an inner page) and number of links (2). The
	// links follow after 16 bytes. Each has 16 bytes, and ends with the id of the other page.
	links := 0
	for at := 2 * page; at < len(content); at += page {
		inner := content[at:]
		if binary.LittleEndian.Uint64(inner) != uint64(at/page) || binary.LittleEndian.Uint16(inner[8:]) != 1 {
			continue
		}
		for i := range int(binary.LittleEndian.Uint16(inner[10:])) {
			binary.LittleEndian.PutUint64(inner[16+16*i+8:], uint64(len(content)/page+1))
			links++
		}
	}
	if links == 0 {
		t.Fatal("the database has no inner pages")
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// overwriteFrom overwrites so many bytes of a file, or up to its end.
func overwriteFrom(t *testing.T, path string, from, count int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	garbage := bytes.Repeat([]byte{0xff}, 1<<20)
	for end := min(from+count, info.Size()); from < end; {
		n, err := f.WriteAt(garbage[:min(end-from, int64(len(garbage)))], from)
		if err != nil && !errors.Is(err, io.EOF) {
			t.Fatal(err)
		}
		from += int64(n)
	}
}
