package recovery

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	bolt "go.etcd.io/bbolt"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/mvcc"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
)

// Survivor is the data of a member of a cluster that has lost its majority.
type Survivor struct {
	directory.Identity
	Members []string // names of the cluster's members, as far as this one knows them

	// The last entry of the log, and its term. Of two survivors, the one with the higher term has the newer data, and
	// with equal terms the one with the higher entry: so Raft itself elects a leader.
	Term, Entry uint64

	Committed uint64 // entry up to which this member knew that a majority has the log
	Applied   uint64 // entry up to which the database has the log

	// Revision is that of the database. The rest of the log may have more of them.
	Revision object.Revision
	Changed  time.Time // when the log was last written
}

// journal is the log of a survivor.
type journal struct {
	database string          // file with the entries before the log
	entries  []*raftpb.Entry // after those of the database
	last     uint64          // index of the last entry
	term     uint64          // of the last entry
	state    *raftpb.HardState
	applied  uint64 // index of the last entry in the database
	since    uint64 // its term
}

// readSurvivor reads the data in the etcd directory of a stopped member, and changes nothing. The caller
// has checked it with [directory.Check].
func readSurvivor(dir string, log *zap.Logger) (s Survivor, j journal, err error) {
	j.database = datadir.ToBackendFileName(dir)
	logs := datadir.ToWALDir(dir)
	snapshots, err := wal.ValidSnapshotEntries(log, logs)
	if err != nil {
		return s, j, directory.DamagedLog(logs, err)
	}
	start := &walpb.Snapshot{}
	if len(snapshots) > 0 {
		start = snapshots[len(snapshots)-1]
	}
	w, err := wal.OpenForRead(log, logs, start)
	if err != nil {
		return s, j, directory.DamagedLog(logs, err)
	}
	_, state, entries, err := w.ReadAll()
	_ = w.Close() // it has nothing to write, and always fails
	if err != nil {
		return s, j, directory.DamagedLog(logs, err)
	}
	database, err := directory.ReadDatabase(j.database)
	if err != nil {
		return s, j, err
	}
	if start.GetIndex() > database.Applied {
		// etcd was stopped before it put a snapshot of the leader in place. directory.Check has found the file.
		j.database = filepath.Join(datadir.ToSnapDir(dir), fmt.Sprintf("%016x.snap.db", start.GetIndex()))
		if database, err = directory.ReadDatabase(j.database); err != nil {
			return s, j, err
		}
	}
	j.applied, j.since, j.state = database.Applied, database.Term, state
	j.last, j.term = max(start.GetIndex(), j.applied), max(start.GetTerm(), j.since)
	if len(entries) > 0 {
		end := entries[len(entries)-1]
		j.last, j.term = end.GetIndex(), end.GetTerm()
	}
	first := slices.IndexFunc(entries, func(e *raftpb.Entry) bool { return e.GetIndex() > j.applied })
	if first > 0 {
		j.since = entries[first-1].GetTerm()
	}
	if first >= 0 {
		j.entries = entries[first:]
	}
	s = Survivor{Term: j.term, Entry: j.last, Committed: max(state.GetCommit(), j.applied), Applied: j.applied}
	for id, name := range database.Names {
		if name == "" {
			name = fmt.Sprintf("%x", id)
		}
		s.Members = append(s.Members, name)
	}
	slices.Sort(s.Members)
	if s.Revision, err = lastRevision(j.database); err != nil {
		return s, j, err
	}
	if names, err := directory.LogFiles(logs); err == nil {
		for _, name := range names {
			if info, err := os.Stat(filepath.Join(logs, name)); err == nil && info.ModTime().After(s.Changed) {
				s.Changed = info.ModTime()
			}
		}
	}
	return s, j, nil
}

// lastRevision returns the revision of a database: that of its last record.
func lastRevision(path string) (revision object.Revision, err error) {
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		if keys := tx.Bucket(schema.Key.Name()); keys != nil {
			if last, _ := keys.Cursor().Last(); last != nil {
				revision = object.Revision(mvcc.BytesToRev(last).Main)
			}
		}
		return nil
	})
	return revision, err
}
