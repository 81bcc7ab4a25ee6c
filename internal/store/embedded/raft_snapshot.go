package embedded

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap/zapcore"
)

// snapshotLogBytes is the size of the write-ahead log after the last raft snapshot at which
// etcd makes another one.
const snapshotLogBytes = 64 << 20

// lookInterval is how many entries are applied between two looks at the log.
const lookInterval = 100

// raftSnapshots makes etcd make a raft snapshot when the write-ahead log after the last one
// has become large, and removes the files before a snapshot that was saved. etcd only counts entries, and a
// low count would cost small writes a tenth of their speed or more. Without it, TestLargeValues
// finds a log of 736 MiB, and a server that takes 1.4 GiB when it starts again.
//
// etcd lets itself be asked for a snapshot only on the goroutine that applies entries, which also
// saves the snapshots. It calls nothing on that goroutine that could be replaced, apart from its
// logger. So this is done with the debug message that etcd writes for each entry. The same test
// fails if etcd changes that.
type raftSnapshots struct {
	dir string // of the member
	log *slog.Logger

	server  atomic.Pointer[etcdserver.EtcdServer] // nil: etcd has not started
	atStart uint64                                // index of the newest snapshot file then, which a crash may have left unfinished

	// The fields below belong to the goroutine that applies entries.

	entries int    // applied since the start
	asked   bool   // a snapshot was asked for, and has not been seen yet
	saved   uint64 // index of the newest snapshot that was saved since the start; 0: none
}

// begin begins to look at the log, for a server that has started.
func (s *raftSnapshots) begin(server *etcdserver.EtcdServer) error {
	var err error
	s.atStart, err = newestSnapshot(s.dir)
	s.server.Store(server)
	return err
}

// entryMessage is the message of etcd. It precedes the application of an entry.
const entryMessage = "Applying entry"

// note notes a message.
func (s *raftSnapshots) note(message string) {
	server := s.server.Load()
	if message != entryMessage || server == nil {
		return
	}
	s.entries++
	due := s.entries%lookInterval == 0
	if !due && !s.asked {
		return
	}
	newest, err := newestSnapshot(s.dir)
	if err != nil {
		return // try again later
	}
	// The file is complete, because this goroutine is the one that writes it. If that failed, etcd
	// has removed it.
	if newest > max(s.atStart, s.saved) {
		s.saved = newest
		s.asked = false
	}
	if err := s.purge(s.saved); err != nil {
		s.log.Warn("cannot remove old files of the write-ahead log of embedded etcd", "error", err)
	}
	if due && s.logBytes(newest) >= snapshotLogBytes {
		server.ForceSnapshot() // after this entry, or some more
		s.asked = true
	}
}

// logBytes returns the size of the files of the write-ahead log after an index.
func (s *raftSnapshots) logBytes(after uint64) (bytes int) {
	names, err := directory.LogFiles(datadir.ToWALDir(s.dir))
	if err != nil {
		return 0
	}
	for _, name := range names {
		if _, index, ok := directory.ParseLogFile(name); ok && index > after {
			bytes += walSegmentBytes
		}
	}
	return bytes
}

// newestSnapshot returns the index of the newest raft snapshot of a member, or 0 if there is
// none.
func newestSnapshot(dir string) (index uint64, err error) {
	entries, err := os.ReadDir(datadir.ToSnapDir(dir))
	if err != nil {
		return 0, err
	}
	for _, e := range entries {
		var term, at uint64
		if filepath.Ext(e.Name()) != ".snap" {
			continue
		}
		if _, err := fmt.Sscanf(e.Name(), "%016x-%016x.snap", &term, &at); err == nil {
			index = max(index, at)
		}
	}
	return index, nil
}

// wrap returns a core that notes the messages, and otherwise is the given one.
func (s *raftSnapshots) wrap(core zapcore.Core) zapcore.Core { return &entryCore{core, s} }

// entryCore is a zapcore.Core that sees the debug messages of etcd.
type entryCore struct {
	zapcore.Core
	snapshots *raftSnapshots
}

// Enabled implements zapcore.LevelEnabler.
func (c *entryCore) Enabled(l zapcore.Level) bool {
	return l == zapcore.DebugLevel || c.Core.Enabled(l)
}

// With implements zapcore.Core.
func (c *entryCore) With(fields []zapcore.Field) zapcore.Core {
	return &entryCore{c.Core.With(fields), c.snapshots}
}

// Check implements zapcore.Core.
func (c *entryCore) Check(entry zapcore.Entry, checked *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if entry.Level == zapcore.DebugLevel {
		c.snapshots.note(entry.Message)
	}
	return c.Core.Check(entry, checked)
}
