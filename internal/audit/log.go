package audit

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Config says where records go.
type Config struct {
	Path     string // of the file; "-": standard error
	MaxBytes int64  // of the file before it is rotated, in whole MiB
	Backups  int    // how many rotated files are kept; 0: all
	Log      *slog.Logger
}

// queueLength is how many records may wait to be written: more than a second of
// writes, and a few MiB.
const queueLength = 4096

// denialsLength is how many may wait where the next one is a denial. Anybody can cause as
// many of those as it can send, and is not to crowd out what others have written.
const denialsLength = queueLength / 2

// Log is an audit log. It may be used by several goroutines at once.
type Log struct {
	log     *slog.Logger
	handler slog.Handler
	file    io.Closer // nil: none
	queue   chan *Record
	done    chan struct{} // closed when all has been written

	mu     sync.RWMutex
	closed bool // guarded by mu: nothing may be queued any more

	written, lost atomic.Int64
	missing       atomic.Int64 // of the lost ones: those that no record has told of
	leftOut       atomic.Int64 // those left out that no record has told of
	failing       bool         // the last write has failed; belongs to the goroutine that writes
}

// Open opens an audit log, which must be closed. It fails if nothing can be written.
func Open(cfg Config) (*Log, error) {
	if cfg.Path == "-" {
		return newLog(os.Stderr, nil, cfg.Log), nil
	}
	const mebibyte = 1 << 20
	file := &lumberjack.Logger{
		Filename: cfg.Path, MaxSize: int(max(cfg.MaxBytes/mebibyte, 1)), MaxBackups: cfg.Backups,
	}
	// It opens the file with the first write, and this is one.
	if _, err := file.Write(nil); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return newLog(file, file, cfg.Log), nil
}

func newLog(w io.Writer, file io.Closer, log *slog.Logger) *Log {
	l := &Log{
		log: log, handler: slog.NewJSONHandler(w, nil), file: file,
		queue: make(chan *Record, queueLength), done: make(chan struct{}),
	}
	go l.run()
	return l
}

// Write records something. It does not wait.
func (l *Log) Write(r *Record) {
	r.Time = cmp.Or(r.Time, time.Now())
	l.mu.RLock()
	defer l.mu.RUnlock()
	if l.closed {
		return
	}
	if r.Kind == Denied && len(l.queue) >= denialsLength {
		l.lose()
		return
	}
	select {
	case l.queue <- r:
	default:
		l.lose()
	}
}

// LeaveOut counts something that is not worth a record of its own. The next record tells
// how many there were.
func (l *Log) CountOmitted() { l.leftOut.Add(1) }

// Close returns when everything that was recorded has been written.
func (l *Log) Close() error {
	l.mu.Lock()
	if !l.closed {
		l.closed = true
		close(l.queue)
	}
	l.mu.Unlock()
	<-l.done
	if l.file == nil {
		return nil
	}
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("close the audit log: %w", err)
	}
	return nil
}

// Count returns how many records were written, and how many were lost.
func (l *Log) Count() (written, lost int64) { return l.written.Load(), l.lost.Load() }

// run writes what is queued until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	for r := range l.queue {
		l.write(r)
	}
}

func (l *Log) write(r *Record) {
	line := slog.NewRecord(r.Time, slog.LevelInfo, string(r.Kind), 0)
	line.AddAttrs(r.attributes()...)
	missing, leftOut := l.missing.Load(), l.leftOut.Load()
	if missing > 0 {
		line.AddAttrs(slog.Int64("missing", missing))
	}
	if leftOut > 0 {
		line.AddAttrs(slog.Int64("left_out", leftOut))
	}
	ctx := context.Background() // that of the request is over
	if err := l.handler.Handle(ctx, line); err != nil {
		l.lose()
		if !l.failing {
			l.failing = true
			l.log.Error("the audit log cannot be written, records are lost until it can", "error", err)
		}
		return
	}
	l.written.Add(1)
	l.missing.Add(-missing)
	l.leftOut.Add(-leftOut)
	if l.failing {
		l.failing = false
		l.log.Warn("the audit log can be written again", "missing", missing)
	}
}

// lose counts a record that will not be written.
func (l *Log) lose() {
	l.lost.Add(1)
	l.missing.Add(1)
}
