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

// recorded returns the lines of files.
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
	l.Write(&Record{Kind: Write}) // too late, and no harm
	closed(t, l)

	// It goes on behind what there is.
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
		t.Errorf("the file is %v, %v, want it to be its owner's", info.Mode(), err)
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
		t.Errorf("2.4 MiB are in %d files of 1 MiB: %v", len(files), files)
	}
	if n := len(recorded(t, files...)); n != records {
		t.Errorf("%d records are in the files, want %d", n, records)
	}
}

func TestOpenFailsWhereNothingCanBeWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if l, err := Open(Config{Path: filepath.Join(path, "audit.log")}); err == nil {
		closed(t, l)
		t.Error("a log in a file is opened")
	}
}

// A disk that is full costs the records that do not fit, and nobody waits.
func TestADiskThatIsFull(t *testing.T) {
	const full = "/dev/full" // as if it were on such a disk
	f, err := os.OpenFile(full, os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	var said bytes.Buffer
	l := newLog(f, f, slog.New(slog.NewTextHandler(&said, nil)))
	const records = 5
	for range records {
		l.Write(&Record{Kind: Write})
	}
	closed(t, l)
	if written, lost := l.Count(); written != 0 || lost != records {
		t.Errorf("%d are counted as written and %d as lost, want %d lost", written, lost, records)
	}
	if n := strings.Count(said.String(), "the audit log cannot be written"); n != 1 {
		t.Errorf("it is said %d times that the log cannot be written, want once:\n%s", n, &said)
	}
}

// paper is a disk whose state a test decides.
type paper struct {
	mu     sync.Mutex // held by the test: the disk is slow
	full   bool       // guarded by mu
	lines  []string   // guarded by mu
	writes chan struct{}
}

func (p *paper) Write(b []byte) (int, error) {
	p.writes <- struct{}{}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.full {
		return 0, errors.New("the disk is full")
	}
	p.lines = append(p.lines, string(b))
	return len(b), nil
}

// What is lost, because the disk is slow or full, is told by the next record.
func TestWhatIsMissingIsTold(t *testing.T) {
	p := &paper{writes: make(chan struct{}, 3*queueLength)}
	var said bytes.Buffer
	l := newLog(p, nil, slog.New(slog.NewTextHandler(&said, nil)))
	p.mu.Lock()
	l.Write(&Record{Kind: Write})
	<-p.writes // it is being written
	for range queueLength + 10 {
		l.Write(&Record{Kind: Write})
	}
	if _, lost := l.Count(); lost != 10 {
		t.Errorf("%d records are lost, want 10: one is being written, %d wait", lost, queueLength)
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
	// The last one that was on its way may have come before the disk had room.
	missing := 0
	for _, line := range p.lines {
		var r struct{ Missing int }
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatal(err)
		}
		missing += r.Missing
	}
	if all := queueLength + 12; missing+len(p.lines) != all {
		t.Errorf("%d records and %d that are missing do not make %d", len(p.lines), missing, all)
	}
	if !slices.ContainsFunc(p.lines, func(l string) bool { return strings.Contains(l, "last") }) {
		t.Error("the last record is missing")
	}
	if !strings.Contains(said.String(), "can be written again") {
		t.Errorf("it is not said that the log can be written again:\n%s", &said)
	}
}

// Whoever is denied again and again leaves room for the records of others.
func TestDenialsCrowdNobodyOut(t *testing.T) {
	p := &paper{writes: make(chan struct{}, 2*queueLength)}
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
		t.Errorf("%d records are lost, want %d, the denials", after-before, queueLength/2)
	}
	p.mu.Unlock()
	closed(t, l)
}
