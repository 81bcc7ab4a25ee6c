// Package etcdlog writes the log of etcd, and of its client, to the log of the server.
package etcdlog

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// New returns a zap logger for etcd that writes to log, with the levels of levelOf. It limits
// repeated messages: a slow disk makes etcd write some of its warnings for every request. Stopping is
// true while an etcd in this process is being stopped; nil: etcd is in another one.
func New(log *slog.Logger, stopping *atomic.Bool, options ...zap.Option) *zap.Logger {
	c := &zapCore{handler: log.Handler(), stopping: stopping, leftOut: &leftOut{}}
	return zap.New(zapcore.NewSamplerWithOptions(c, repeatInterval, repeatedLines, 0, zapcore.SamplerHook(c.leftOut.note)), options...)
}

// Of lines with the same message and level, the first repeatedLines of each repeatInterval are
// logged. These are guesses: enough to see what goes on, too few to fill a log.
const (
	repeatInterval = 10 * time.Second
	repeatedLines  = 3
)

// leftOut counts the lines of each message that were not logged.
type leftOut struct {
	mu    sync.Mutex
	lines map[string]int // guarded by mu
}

// note is a hook of the sampler.
func (l *leftOut) note(entry zapcore.Entry, d zapcore.SamplingDecision) {
	if d&zapcore.LogDropped == 0 {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines == nil {
		l.lines = map[string]int{}
	}
	l.lines[entry.Message]++
}

// take returns the count of a message, and begins to count again.
func (l *leftOut) take(message string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := l.lines[message]
	delete(l.lines, message)
	return n
}

// zapCore is a zapcore.Core that writes to a slog.Handler.
type zapCore struct {
	handler  slog.Handler
	stopping *atomic.Bool
	leftOut  *leftOut
}

// Enabled implements zapcore.LevelEnabler. etcd's own DEBUG lines are always dropped, because
// they contain whole requests, with values.
func (c *zapCore) Enabled(l zapcore.Level) bool {
	return l > zapcore.DebugLevel && c.handler.Enabled(context.Background(), levelOf(&zapcore.Entry{Level: l}, nil))
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{handler: c.handler.WithAttrs(attrs(fields)), stopping: c.stopping, leftOut: c.leftOut}
}

// expectedWhileStopping are messages about a closed listener. They are errors unless etcd
// is being stopped.
var expectedWhileStopping = map[string]bool{
	"setting up serving from embedded etcd failed.": true,
	"stopping insecure grpc server due to error":    true,
	"stopped insecure grpc server due to error":     true,
}

// Check implements zapcore.Core.
func (c *zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || expectedWhileStopping[entry.Message] && c.stopping != nil && c.stopping.Load() {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c *zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	level := levelOf(&entry, fields)
	if !c.handler.Enabled(context.Background(), level) {
		return nil
	}
	r := slog.NewRecord(entry.Time, level, entry.Message, 0)
	r.AddAttrs(attrs(fields)...)
	if n := c.leftOut.take(entry.Message); n > 0 {
		r.AddAttrs(slog.Int("left_out", n))
	}
	return c.handler.Handle(context.Background(), r)
}

// Sync implements zapcore.Core.
func (c *zapCore) Sync() error { return nil }

func attrs(fields []zapcore.Field) []slog.Attr {
	encoded := zapcore.NewMapObjectEncoder()
	out := make([]slog.Attr, 0, len(fields))
	for _, f := range fields {
		f.AddTo(encoded)
		v, ok := encoded.Fields[f.Key]
		if !ok {
			continue
		}
		if text, isText := v.(string); isText {
			v = clip(text)
		}
		out = append(out, slog.Any(f.Key, v))
	}
	return out
}

// maxTextBytes is the maximum length of a logged text. etcd logs slow requests in full,
// and one of our transactions can have thousands of keys.
const maxTextBytes = 512

func clip(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes], "") + "..."
}
