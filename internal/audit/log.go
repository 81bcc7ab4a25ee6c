package audit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"gopkg.in/natefinch/lumberjack.v2"
)

// Config configures an audit log.
type Config struct {
	Path     string // path of the file; "-": standard error
	MaxBytes int64  // size at which the file is rotated, rounded down to whole MiB
	Backups  int    // number of rotated files to keep; 0: all
	Log      *slog.Logger
}

// queueLength is the capacity of the queue: more than a second of writes, or a few MiB.
const queueLength = 4096

// denialsLength is the queue length from which denials are dropped. A client can cause any
// number of denials, which must not displace the records of other clients' writes.
const denialsLength = queueLength / 2

// Log is an audit log. Its methods may be called from any goroutine.
type Log struct {
	log   *slog.Logger
	out   io.Writer
	file  io.Closer // nil: standard error
	queue chan *Record
	done  chan struct{} // closed when the queue has been written

	mu     sync.RWMutex
	closed bool // guarded by mu: the queue is closed

	written, lost atomic.Int64
	missing       atomic.Int64 // lost records that no written record has reported yet
	omitted       atomic.Int64 // omitted records that no written record has reported yet
	failing       bool         // the last write failed; belongs to the goroutine of run
}

// Open opens an audit log. It fails if the file cannot be written. The caller closes the log.
func Open(cfg Config) (*Log, error) {
	if cfg.Path == "-" {
		return newLog(os.Stderr, nil, cfg.Log), nil
	}
	const mebibyte = 1 << 20
	file := &lumberjack.Logger{
		Filename: cfg.Path, MaxSize: int(max(cfg.MaxBytes/mebibyte, 1)), MaxBackups: cfg.Backups,
	}
	// The first write opens the file.
	if _, err := file.Write(nil); err != nil {
		return nil, fmt.Errorf("open the audit log: %w", err)
	}
	return newLog(file, file, cfg.Log), nil
}

func newLog(w io.Writer, file io.Closer, log *slog.Logger) *Log {
	l := &Log{log: log, out: w, file: file, queue: make(chan *Record, queueLength), done: make(chan struct{})}
	go l.run()
	return l
}

// Write queues a record. It never blocks, and drops the record if the queue is full or the
// log is closed.
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

// CountOmitted counts a record that the caller has omitted. The next record contains the
// number of omitted ones.
func (l *Log) CountOmitted() { l.omitted.Add(1) }

// Close writes the queued records and closes the file.
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

// Count returns the number of written and of lost records.
func (l *Log) Count() (written, lost int64) { return l.written.Load(), l.lost.Load() }

// run writes the queue until the log is closed.
func (l *Log) run() {
	defer close(l.done)
	for r := range l.queue {
		l.write(r)
	}
}

// line is a line of the log.
type line struct {
	Time  time.Time `json:"time"`
	Level string    `json:"level"`
	Record
	Missing int64 `json:"missing,omitempty"`
	LeftOut int64 `json:"left_out,omitempty"`
}

func (l *Log) write(r *Record) {
	missing, omitted := l.missing.Load(), l.omitted.Load()
	out := line{r.Time, slog.LevelInfo.String(), *r, missing, omitted}
	if out.KeyCount <= len(out.Keys) {
		out.KeyCount = 0
	}
	encoder := json.NewEncoder(l.out) // writes nothing more after an error
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(out); err != nil {
		l.lose()
		if !l.failing {
			l.failing = true
			l.log.Error("could not write the audit log, records are lost until it can be written", "error", err)
		}
		return
	}
	l.written.Add(1)
	l.missing.Add(-missing)
	l.omitted.Add(-omitted)
	if l.failing {
		l.failing = false
		l.log.Warn("the audit log can be written again", "missing", missing)
	}
}

// lose counts a lost record.
func (l *Log) lose() {
	l.lost.Add(1)
	l.missing.Add(1)
}
