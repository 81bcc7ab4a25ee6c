package directory

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-semver/semver"
	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/schema"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// Check finds out why etcd could not work with a data directory. etcd itself would
// panic, crash or wait forever. The caller has set [debug.SetPanicOnFault] and recovers
// panics, because a damaged database may cause one anywhere.
//
// Several means that the member may belong to a cluster of several.
//
// Check reads the write-ahead log, which etcd reads anyway. Of the database it reads
// only a few pages. Damage elsewhere shows when etcd reads the rest.
func Check(dir string, several bool) error {
	path := datadir.ToBackendFileName(dir)
	names, err := LogFiles(datadir.ToWALDir(dir))
	if err != nil {
		return err
	}
	switch _, err := os.Stat(path); {
	case errors.Is(err, os.ErrNotExist) && len(names) == 0:
		return nil // a new directory
	case errors.Is(err, os.ErrNotExist):
		return Damaged("the database %s is missing: restore a backup", path)
	case err != nil:
		return err
	}
	db, err := ReadDatabase(path)
	if err != nil {
		return err
	}
	if err := db.CheckOrigin(several); err != nil {
		return err
	}
	if len(names) == 0 {
		if db.Applied == 0 {
			return nil // the first start was interrupted
		}
		return Damaged("the write-ahead log %s is missing: restore a backup", datadir.ToWALDir(dir))
	}
	return db.checkLog(path, datadir.ToWALDir(dir), names)
}

// Database is what the database of a member contains about the member.
type Database struct {
	Applied uint64          // index of the last raft entry that it contains
	Term    uint64          // of that entry; 0: unknown
	storage *semver.Version // of its format; nil: unknown, or older than etcd 3.6
	cluster *semver.Version // of the cluster; nil: unknown
	members int
	Names   map[uint64]string // of the members; empty until they have been ready once
}

// ReadDatabase reads the state of a database, and thereby the pages at the root of all its
// buckets.
func ReadDatabase(path string) (state Database, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return state, err
	}
	if info.Size() == 0 {
		return state, nil // etcd was interrupted when it created the file
	}
	damage := func(cause any) error { return Damaged("the database %s is damaged, restore a backup: %v", path, cause) }
	defer func() {
		if p := recover(); p != nil {
			err = damage(p)
		}
	}()
	db, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if errors.Is(err, bolterrors.ErrTimeout) {
		return state, fmt.Errorf("the database %s is in use by another process", path)
	}
	if err != nil {
		return state, damage(err)
	}
	defer db.Close()
	err = db.View(func(tx *bolt.Tx) error {
		if size := tx.Size(); size > info.Size() {
			return fmt.Errorf("it has %d bytes instead of %d", info.Size(), size)
		}
		return state.read(tx)
	})
	if err != nil {
		return state, damage(err)
	}
	return state, nil
}

func (s *Database) read(tx *bolt.Tx) error {
	err := tx.ForEach(func(_ []byte, b *bolt.Bucket) error {
		b.Cursor().First()
		b.Cursor().Last()
		return nil
	})
	if err != nil {
		return err
	}
	if meta := tx.Bucket(schema.Meta.Name()); meta != nil {
		if index := meta.Get(schema.MetaConsistentIndexKeyName); len(index) == 8 {
			s.Applied = binary.BigEndian.Uint64(index)
		}
		if term := meta.Get(schema.MetaTermKeyName); len(term) == 8 {
			s.Term = binary.BigEndian.Uint64(term)
		}
		s.storage = parseVersion(meta.Get(schema.MetaStorageVersionName))
	}
	if cluster := tx.Bucket(schema.Cluster.Name()); cluster != nil {
		s.cluster = parseVersion(cluster.Get(schema.ClusterClusterVersionKeyName))
	}
	return s.readMembers(tx)
}

// parseVersion returns the minor version, or nil if the text is not a version.
func parseVersion(text []byte) *semver.Version {
	v, err := semver.NewVersion(string(text))
	if err != nil {
		return nil
	}
	return &semver.Version{Major: v.Major, Minor: v.Minor}
}

// CheckOrigin refuses the databases of other versions, and of larger clusters unless several is set.
func (s *Database) CheckOrigin(several bool) error {
	own := parseVersion([]byte(version.Version))
	previous := &semver.Version{Major: own.Major, Minor: own.Minor - 1}
	first := &semver.Version{Major: 3} // also that of a new cluster, whatever the version
	switch {
	case s.members > 1 && !several:
		return fmt.Errorf("the data is that of a member of a cluster of %d: set cluster, or make it that of a single server with fanoutd recover", s.members)
	case s.storage != nil && own.LessThan(*s.storage):
		return fmt.Errorf("the data was written by etcd %d.%d, which is newer than the embedded etcd %d.%d: use a newer version of fanoutd",
			s.storage.Major, s.storage.Minor, own.Major, own.Minor)
	case s.storage == nil && s.cluster != nil && first.LessThan(*s.cluster) && s.cluster.LessThan(*previous):
		return fmt.Errorf("the data was written by etcd %d.%d, which the embedded etcd %d.%d cannot read: start etcd %d.%d with it once, which upgrades it",
			s.cluster.Major, s.cluster.Minor, own.Major, own.Minor, previous.Major, previous.Minor)
	}
	return nil
}

// checkLog reads the whole write-ahead log of a database, and verifies its checksums and that no
// file is missing.
func (s *Database) checkLog(path, dir string, names []string) error {
	first, err := checkSequence(dir, names)
	if err != nil {
		return err
	}
	readers := make([]fileutil.FileReader, len(names))
	for i, name := range names {
		f, err := os.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer f.Close()
		readers[i] = fileutil.NewFileReader(f)
	}
	var last uint64 // index of the last entry
	var snapshots []uint64
	entry, hard, snapshot := &raftpb.Entry{}, &raftpb.HardState{}, &walpb.Snapshot{}
	messages := map[int64]proto.Message{wal.EntryType: entry, wal.StateType: hard, wal.SnapshotType: snapshot}
	decoder := wal.NewDecoder(readers...)
	record := &walpb.Record{}
	err = decoder.Decode(record)
	for ; err == nil; err = decoder.Decode(record) {
		if m, ok := messages[record.GetType()]; ok {
			if err := proto.Unmarshal(record.GetData(), m); err != nil {
				return DamagedLog(dir, err)
			}
		}
		switch record.GetType() {
		case wal.EntryType:
			last = entry.GetIndex()
		case wal.SnapshotType:
			snapshots = append(snapshots, snapshot.GetIndex())
		case wal.CrcType:
			if crc := decoder.LastCRC(); crc != 0 && record.Validate(crc) != nil {
				return DamagedLog(dir, wal.ErrCRCMismatch)
			}
			decoder.UpdateCRC(record.GetCrc())
		}
	}
	// etcd repairs a log whose last record is incomplete.
	if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return DamagedLog(dir, err)
	}
	var newest uint64 // index of the last snapshot record that is committed
	for _, index := range snapshots {
		if index <= hard.GetCommit() {
			newest = index
		}
	}
	switch {
	case first > newest:
		return Damaged("the write-ahead log %s begins at entry %d instead of %d: files are missing, restore a backup", dir, first, newest)
	// A snapshot may stand for entries whose file is gone.
	case max(last, newest) < s.Applied:
		return Damaged("the write-ahead log %s ends at entry %d, but the database contains entry %d: files are missing, restore a backup",
			dir, max(last, newest), s.Applied)
	// A snapshot that the leader has sent is still in a file of its own, until etcd puts it in place.
	case newest > s.Applied && !fileutil.Exist(filepath.Join(filepath.Dir(path), fmt.Sprintf("%016x.snap.db", newest))):
		return Damaged("the database %s ends at entry %d, but the write-ahead log begins after entry %d: restore a backup", path, s.Applied, newest)
	}
	return nil
}

// DamagedError means that etcd cannot work with the files of a member, because some are damaged or missing. The other
// members of a cluster may still have all the data.
type DamagedError struct{ err error }

func (e *DamagedError) Error() string { return e.err.Error() }
func (e *DamagedError) Unwrap() error { return e.err }

// Damaged returns a [*DamagedError].
func Damaged(format string, args ...any) error { return &DamagedError{fmt.Errorf(format, args...)} }

// DamagedLog is the error about a write-ahead log that cannot be read.
func DamagedLog(dir string, err error) error {
	return Damaged("the write-ahead log %s is damaged, restore a backup: %w", dir, err)
}

// LogFiles returns the names of the files of a write-ahead log, oldest first.
func LogFiles(dir string) ([]string, error) {
	names, err := fileutil.ReadDir(dir, fileutil.WithExt(".wal"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return names, err
}

// checkSequence verifies that no file between the first and the last one is missing. It
// returns the index with which the first one begins.
func checkSequence(dir string, names []string) (first uint64, err error) {
	previous := uint64(0)
	for i, name := range names {
		sequence, index, ok := ParseLogFile(name)
		if !ok {
			return 0, fmt.Errorf("%s is not a file of a write-ahead log: remove it", filepath.Join(dir, name))
		}
		if i > 0 && sequence != previous+1 {
			return 0, Damaged("the write-ahead log %s has no file between %s and %s: restore a backup", dir, names[i-1], name)
		}
		if i == 0 {
			first = index
		}
		previous = sequence
	}
	return first, nil
}

// ParseLogFile returns the sequence number of a file of the write-ahead log, and the index
// of its first entry.
func ParseLogFile(name string) (sequence, index uint64, ok bool) {
	_, err := fmt.Sscanf(name, "%016x-%016x.wal", &sequence, &index)
	return sequence, index, err == nil
}

// Bytes returns the size of the files of a member.
func Bytes(dir string) int64 {
	var size int64
	for _, folder := range []string{datadir.ToSnapDir(dir), datadir.ToWALDir(dir)} {
		entries, _ := os.ReadDir(folder) // a missing folder has no files
		for _, e := range entries {
			if info, err := e.Info(); err == nil && !strings.HasSuffix(e.Name(), ".tmp") {
				size += info.Size()
			}
		}
	}
	return size
}
