package server_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"testing"
)

// line is one log record: its attributes by name, including "msg" and "level".
type line map[string]any

// lines collects the log records of a server. A JSON handler writes each record to it
// with one call of Write.
type lines struct {
	mu      sync.Mutex
	all     []line        // guarded by mu
	raw     []byte        // guarded by mu
	changed chan struct{} // guarded by mu; closed and replaced for every line
}

func newLines() *lines { return &lines{changed: make(chan struct{})} }

func (l *lines) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// Write implements io.Writer.
func (l *lines) Write(b []byte) (int, error) {
	var next line
	if err := json.Unmarshal(b, &next); err != nil {
		return 0, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, next)
	l.raw = append(l.raw, b...)
	close(l.changed)
	l.changed = make(chan struct{})
	return len(b), nil
}

// text returns the whole log.
func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.raw)
}

// await waits for a line with all the given attributes and returns the first one.
func (l *lines) await(ctx context.Context, t *testing.T, want line) line {
	t.Helper()
	return l.awaitAll(ctx, t, want, 1)[0]
}

// awaitAll waits for count lines with all the given attributes and returns them.
func (l *lines) awaitAll(ctx context.Context, t *testing.T, want line, count int) []line {
	t.Helper()
	var found []line
	for seen := 0; ; {
		l.mu.Lock()
		all, changed := l.all, l.changed
		l.mu.Unlock()
		for ; seen < len(all); seen++ {
			if all[seen].has(want) {
				found = append(found, all[seen])
			}
			if len(found) == count {
				return found
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("got %d log lines with %v, want %d", len(found), want, count)
		}
	}
}

func (l line) has(want line) bool {
	for name, value := range want {
		if l[name] != value {
			return false
		}
	}
	return true
}
