package embedded

import (
	"os"
	"path/filepath"

	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
)

// These limits bound the entries in memory and the write-ahead log by bytes, because etcd
// limits a request to 1.5 MiB. etcd's defaults suit a cluster, whose slow members need old
// entries. See also [raftSnapshots].
const (
	// catchUpEntries is the number of older entries to keep in memory for slow members. A
	// single member needs none, but 0 means etcd's default of 5,000, which TestLargeValues finds
	// in the memory. etcd discards older entries after every hundred.
	catchUpEntries = 1

	// walSegmentBytes is the size of a file of the log. etcd allocates files in advance.
	walSegmentBytes = 16 << 20
)

// etcd has no setting for this. With its own size, files of 64 MiB are taken in advance, and a full
// disk of 512 MiB has no room for a defragmentation: TestDiskFilledByObjects.
func init() { wal.SegmentSizeBytes = walSegmentBytes }

// purge removes the files of the write-ahead log before a snapshot that was saved. etcd would do
// this only every 30 seconds, and a fast writer fills gigabytes meanwhile: TestLargeValues finds them.
func (s *raftSnapshots) purge(saved uint64) error {
	dir := datadir.ToWALDir(s.dir)
	names, err := directory.LogFiles(dir)
	if err != nil {
		return err
	}
	for i := 0; i+1 < len(names); i++ {
		if _, next, ok := directory.ParseLogFile(names[i+1]); !ok || next > saved {
			return nil // names[i] contains the entry
		}
		path := filepath.Join(dir, names[i])
		// etcd holds the locks of the files that it still needs.
		lock, lockErr := fileutil.TryLockFile(path, os.O_WRONLY, fileutil.PrivateFileMode)
		if lockErr != nil {
			return nil // try again later
		}
		err = os.Remove(path)
		_ = lock.Close() // the file is gone
		if err != nil {
			return err
		}
	}
	return nil
}
