package store

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// zapLogger returns a logger for etcd, which logs with zap, that writes to ours.
// etcd's information is our debugging: it describes the inside of a part. Stopping says
// that etcd is being stopped.
func zapLogger(log *slog.Logger, stopping *atomic.Bool) *zap.Logger {
	return zap.New(&zapCore{handler: log.Handler(), stopping: stopping})
}

// zapCore is a zapcore.Core in front of a slog.Handler.
type zapCore struct {
	handler  slog.Handler
	stopping *atomic.Bool
}

func slogLevel(l zapcore.Level) slog.Level {
	switch {
	case l >= zapcore.ErrorLevel:
		return slog.LevelError
	case l == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelDebug
}

// Enabled implements zapcore.LevelEnabler.
func (c *zapCore) Enabled(l zapcore.Level) bool {
	return c.handler.Enabled(context.Background(), slogLevel(l))
}

// With implements zapcore.Core.
func (c *zapCore) With(fields []zapcore.Field) zapcore.Core {
	return &zapCore{handler: c.handler.WithAttrs(attrs(fields)), stopping: c.stopping}
}

// notForUs are warnings of etcd about how it is exposed to others. The embedded
// member is not, unless asked, and an operator could do nothing about them.
var notForUs = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
}

// ofStopping are what etcd says of its listener, and what is nothing to speak of while
// it stops: that it does not listen any more is what was wanted.
var ofStopping = map[string]bool{
	"setting up serving from embedded etcd failed.": true,
	"stopping insecure grpc server due to error":    true,
	"stopped insecure grpc server due to error":     true,
}

// Check implements zapcore.Core.
func (c *zapCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if !c.Enabled(entry.Level) || notForUs[entry.Message] || ofStopping[entry.Message] && c.stopping.Load() {
		return checked
	}
	return checked.AddCore(entry, c)
}

// Write implements zapcore.Core.
func (c *zapCore) Write(entry zapcore.Entry, fields []zapcore.Field) error {
	r := slog.NewRecord(entry.Time, slogLevel(entry.Level), entry.Message, 0)
	r.AddAttrs(attrs(fields)...)
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

// maxTextBytes is how much of a text is logged. etcd shows slow requests in full, and a
// transaction of us can have thousands of keys.
const maxTextBytes = 512

func clip(text string) string {
	if len(text) <= maxTextBytes {
		return text
	}
	return strings.ToValidUTF8(text[:maxTextBytes], "") + "..."
}
