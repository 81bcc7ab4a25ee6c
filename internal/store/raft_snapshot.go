package store

import (
	"sync/atomic"

	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap/zapcore"
)

// snapshotLogBytes is the size of the write-ahead log after the last raft snapshot at which
// etcd makes another one.
const snapshotLogBytes = 64 << 20

// snapshotTrigger makes etcd make a raft snapshot when the write-ahead log after the last one
// has become large. etcd only counts entries, and a low count would cost small writes a tenth
// of their speed or more.
//
// etcd lets itself be asked for a snapshot only on the goroutine that applies entries. The
// one way to get there is its log: it writes a debug message for each entry, and another one
// after every hundred entries. TestLargeValues fails if etcd changes that.
type snapshotTrigger struct {
	dir    string                                // of the member
	server atomic.Pointer[etcdserver.EtcdServer] // nil: etcd has not started
	due    bool                                  // a snapshot is due; only for the goroutine that applies entries
}

// The messages of etcd. It logs the second one right after a snapshot in memory. A snapshot
// on disk is possible only after a further entry.
const (
	entryMessage     = "Applying entry"
	compactedMessage = "compacted Raft logs"
)

// note notes a message.
func (t *snapshotTrigger) note(message string) {
	switch {
	case message == compactedMessage:
		t.due = t.logIsLarge()
	case message == entryMessage && t.due:
		if server := t.server.Load(); server != nil {
			t.due = false
			server.ForceSnapshot()
		}
	}
}

func (t *snapshotTrigger) logIsLarge() bool {
	newest, err := newestSnapshot(t.dir)
	if err != nil {
		return false
	}
	names, err := walNames(datadir.ToWALDir(t.dir))
	if err != nil {
		return false
	}
	bytes := 0
	for _, name := range names {
		if _, index, ok := parseWALName(name); ok && index > newest {
			bytes += walSegmentBytes
		}
	}
	return bytes >= snapshotLogBytes
}

// wrap returns a core that notes the messages, and otherwise is the given one.
func (t *snapshotTrigger) wrap(core zapcore.Core) zapcore.Core { return &triggerCore{core, t} }

// triggerCore is a zapcore.Core that sees the debug messages of etcd.
type triggerCore struct {
	zapcore.Core
	trigger *snapshotTrigger
}

// Enabled implements zapcore.LevelEnabler.
func (c *triggerCore) Enabled(l zapcore.Level) bool {
	return l == zapcore.DebugLevel || c.Core.Enabled(l)
}

// With implements zapcore.Core.
func (c *triggerCore) With(fields []zapcore.Field) zapcore.Core {
	return &triggerCore{c.Core.With(fields), c.trigger}
}

// Check implements zapcore.Core.
func (c *triggerCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level == zapcore.DebugLevel {
		c.trigger.note(entry.Message)
	}
	return c.Core.Check(entry, checked)
}
