package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// recorded returns the records in files.
func recorded(t *testing.T, paths ...string) []map[string]any {
	t.Helper()
	var all []map[string]any
	for _, path := range paths {
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		for lines := bufio.NewScanner(f); lines.Scan(); {
			var line map[string]any
			if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
				t.Fatalf("%s: %v", lines.Bytes(), err)
			}
			all = append(all, line)
		}
	}
	return all
}

func open(t *testing.T, cfg Config) *Log {
	t.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	l, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func closed(t *testing.T, l *Log) {
	t.Helper()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}

func TestRecordsAreLinesOfAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	l := open(t, Config{Path: path})
	l.Write(&Record{
		Time: at, Kind: Write, Method: "fanout.v1.StoreService/Transact", Identity: "ann", Authentication: "token", Peer: "10.0.0.1:5",
		UserAgent: "tool", Resource: "config", Keys: []string{"a", "b"}, KeyCount: 3, Revision: 7, Code: "OK",
	})
	l.Write(&Record{Time: at, Kind: Denied, Method: "m", Code: "PermissionDenied", Reason: "NO"})
	closed(t, l)
	l.Write(&Record{Kind: Write}) // ignored after Close
	closed(t, l)

	// A reopened log appends to the file.
	l = open(t, Config{Path: path})
	l.Write(&Record{Time: at, Kind: Admin, Method: "m", Watcher: "w"})
	closed(t, l)
	want := []map[string]any{
		{
			"time": "2026-01-02T03:04:05Z", "level": "INFO", "msg": "write", "method": "fanout.v1.StoreService/Transact",
			"identity": "ann", "authentication": "token", "peer": "10.0.0.1:5", "user_agent": "tool", "resource": "config",
			"keys": []any{"a", "b"}, "key_count": 3., "revision": 7., "code": "OK",
		},
		{"time": "2026-01-02T03:04:05Z", "level": "INFO", "msg": "denied", "method": "m", "code": "PermissionDenied", "reason": "NO"},
		{"time": "2026-01-02T03:04:05Z", "level": "INFO", "msg": "admin", "method": "m", "watcher": "w"},
	}
	if diff := cmp.Diff(want, recorded(t, path)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got the mode %v, %v, want access for the owner only", info.Mode(), err)
	}
}

// The number of keys is left out if the line has them all.
func TestKeyCountIsLeftOutWithAllKeys(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	l := open(t, Config{Path: path})
	all := &Record{Kind: Write, Keys: []string{"a", "b"}, KeyCount: 2}
	l.Write(all)
	l.Write(&Record{Kind: Write, Keys: []string{"a", "b"}, KeyCount: 3})
	closed(t, l)
	var got []any
	for _, line := range recorded(t, path) {
		got = append(got, line["key_count"])
	}
	if want := []any{nil, 3.}; !slices.Equal(got, want) || all.KeyCount != 2 {
		t.Errorf("got the key counts %v, and %d in the record, want %v, and 2", got, all.KeyCount, want)
	}
}

func TestFilesAreRotated(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	l := open(t, Config{Path: path, MaxBytes: 1 << 20, Backups: 0})
	const records = 300
	for range records {
		l.Write(&Record{Kind: Write, Keys: []string{strings.Repeat("k", 8<<10)}})
	}
	closed(t, l)
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		t.Fatal(err)
	}
	if len(files) != 3 {
		t.Errorf("got 2.4 MiB in %d files %v, want 3 files of 1 MiB", len(files), files)
	}
	if n := len(recorded(t, files...)); n != records {
		t.Errorf("got %d records in the files, want %d", n, records)
	}
}

func TestOpenFailsWithAnUnwritableFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(Config{Path: filepath.Join(path, "audit.log")}); err == nil {
		closed(t, l)
		t.Error("Open succeeded with a file as directory")
	}
}

// On a full disk records are lost and counted, and writing does not block.
func TestFullDiskLosesRecords(t *testing.T) {
	const full = "/dev/full" // behaves like a file on a full disk
	f, err := os.OpenFile(full, os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	var out bytes.Buffer
	l := newLog(f, f, slog.New(slog.NewTextHandler(&out, nil)))
	const records = 5
	for range records {
		l.Write(&Record{Kind: Write})
	}
	closed(t, l)
	if written, lost := l.Count(); written != 0 || lost != records {
		t.Errorf("got %d written and %d lost records, want 0 and %d", written, lost, records)
	}
	if n := strings.Count(out.String(), "could not write the audit log"); n != 1 {
		t.Errorf("the failure is logged %d times, want once:\n%s", n, &out)
	}
}

// testDisk is a disk that a test can block or fill.
type testDisk struct {
	mu     sync.Mutex // held by the test to block the disk
	full   bool       // guarded by mu
	lines  []string   // guarded by mu
	writes chan struct{}
}

func (p *testDisk) Write(b []byte) (int, error) {
	p.writes <- struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full {
		return 0, errors.New("the disk is full")
	}
	p.lines = append(p.lines, string(b))
	return len(b), nil
}

// The next written record reports the records that a slow or full disk has lost.
func TestLostRecordsAreReported(t *testing.T) {
	p := &testDisk{writes: make(chan struct{}, 3*queueLength)}
	var out bytes.Buffer
	l := newLog(p, nil, slog.New(slog.NewTextHandler(&out, nil)))
	p.mu.Lock()
	l.Write(&Record{Kind: Write})
	<-p.writes // it is being written
	for range queueLength + 10 {
		l.Write(&Record{Kind: Write})
	}
	if _, lost := l.Count(); lost != 10 {
		t.Errorf("got %d lost records, want 10: one is being written and %d are queued", lost, queueLength)
	}
	p.full = true
	p.mu.Unlock()
	for range queueLength {
		<-p.writes
	}
	p.mu.Lock()
	p.full = false
	p.mu.Unlock()
	l.Write(&Record{Kind: Write, Method: "last"})
	closed(t, l)
	if len(p.lines) == 0 {
		t.Fatal("nothing was written")
	}
	// The disk may have had space again before the last queued record.
	missing := 0
	for _, line := range p.lines {
		var r struct{ Missing int }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		missing += r.Missing
	}
	if all := queueLength + 12; missing+len(p.lines) != all {
		t.Errorf("got %d written and %d missing records, want %d in total", len(p.lines), missing, all)
	}
	if !slices.ContainsFunc(p.lines, func(l string) bool { return strings.Contains(l, "last") }) {
		t.Error("the last record was not written")
	}
	if !strings.Contains(out.String(), "can be written again") {
		t.Errorf("the recovery is not logged:\n%s", &out)
	}
}

// Many denials leave space in the queue for other records.
func TestDenialsDoNotDisplaceOtherRecords(t *testing.T) {
	p := &testDisk{writes: make(chan struct{}, 2*queueLength)}
	l := newLog(p, nil, slog.New(slog.DiscardHandler))
	p.mu.Lock()
	l.Write(&Record{Kind: Denied})
	<-p.writes // it is being written
	for range 2 * queueLength {
		l.Write(&Record{Kind: Denied})
	}
	_, before := l.Count()
	for range queueLength / 2 {
		l.Write(&Record{Kind: Write})
		l.Write(&Record{Kind: Denied})
	}
	if _, after := l.Count(); after-before != queueLength/2 {
		t.Errorf("got %d lost records, want %d: the denials", after-before, queueLength/2)
	}
	p.mu.Unlock()
	closed(t, l)
}
