package embedded

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded/disk"
)

// defragment rewrites the database file without its unused pages. Reads and writes of etcd
// wait meanwhile. The caller holds space.
func (m *Member) defragment() error {
	// etcd writes a second file before it removes the first one.
	needed, err := m.defragmentedBytes()
	if err != nil {
		return fmt.Errorf("read the database: %w", err)
	}
	needed += needed/8 + emptyBytes
	free, err := disk.Free(m.disk.dir)
	if err == nil && free < needed {
		defer m.disk.lendReserve()()
		free, err = disk.Free(m.disk.dir)
	}
	if err != nil {
		return err
	}
	if free < needed {
		return &object.SpaceError{What: "a defragmentation", Needed: needed, Free: free}
	}
	if err := m.rewriteDatabase(); err != nil {
		if disk.Full(err) {
			err = fmt.Errorf("%w: %w", object.ErrNoSpace, err)
		}
		return fmt.Errorf("defragment: %w", err)
	}
	return nil
}

// rewriteDatabase defragments the database. Others can read its sizes meanwhile.
func (m *Member) rewriteDatabase() error {
	b := m.backend()
	if !m.several {
		return b.Defrag()
	}
	// etcd does not replace the database by a snapshot of the leader while it defragments. Without that, the old
	// database would take the place of the new one.
	m.defragmenting.Store(&b)
	defer m.defragmenting.Store(nil)
	return m.etcd.Server.Defragment()
}

// defragmentedBytes returns about how large the database is after a defragmentation.
//
// It reads the sizes of all records, because SizeInUse of the database may be far more. Deleted
// data is in use until the readers that may see it have ended, and two more commits. etcd ends its
// own readers on goroutines that it does not wait for, so on a busy machine that takes a while.
//
// A defragmentation puts the records into leaves of whole pages. bbolt begins another leaf once one is
// nine tenths full, but each has at least two records.
//
// A member of several only knows SizeInUse: a snapshot of the leader may replace the database while
// it is read.
func (m *Member) defragmentedBytes() (int64, error) {
	if m.several {
		return m.backend().SizeInUse(), nil
	}
	tx := m.backend().ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	page := int64(os.Getpagesize())
	var pages int64
	for _, bucket := range schema.AllBuckets {
		var leaf, records int64 // bytes and records of the last leaf
		err := tx.UnsafeForEach(bucket, func(key, value []byte) error {
			bytes := int64(len(key)+len(value)) + leafOverhead
			if records >= 2 && leaf+bytes > page*9/10 {
				pages += (leaf + page - 1) / page
				leaf, records = 0, 0
			}
			if records == 0 {
				leaf = leafOverhead
			}
			leaf += bytes
			records++
			return nil
		})
		if err != nil {
			return 0, err
		}
		pages += (leaf + page - 1) / page
	}
	return pages * page, nil
}

// leafOverhead is what bbolt stores besides a record, and in each leaf.
const leafOverhead = 16
