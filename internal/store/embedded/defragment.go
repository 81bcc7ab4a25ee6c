package embedded

import (
	"fmt"
	"os"

	"go.etcd.io/etcd/server/v3/storage/schema"

	"github.com/fanoutd/fanoutd/internal/object"
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
	free, err := freeBytes(m.disk.dir)
	if err == nil && free < needed {
		defer m.disk.lendReserve()()
		free, err = freeBytes(m.disk.dir)
	}
	if err != nil {
		return err
	}
	if free < needed {
		return &object.SpaceError{What: "a defragmentation", Needed: needed, Free: free}
	}
	// Unlike that of the server, this method lets others read the sizes meanwhile.
	if err := m.backend.Defrag(); err != nil {
		if isDiskFull(err) {
			err = fmt.Errorf("%w: %w", object.ErrNoSpace, err)
		}
		return fmt.Errorf("defragment: %w", err)
	}
	return nil
}

// defragmentedBytes returns about how large the database is after a defragmentation.
//
// It reads the sizes of all records, because SizeInUse of the database may be far more. Deleted
// data is in use until the readers that may see it have ended, and two more commits. etcd ends its
// own readers on goroutines that it does not wait for, so on a busy machine that takes a while.
func (m *Member) defragmentedBytes() (int64, error) {
	tx := m.backend.ConcurrentReadTx()
	tx.RLock()
	defer tx.RUnlock()
	var bytes int64
	for _, bucket := range schema.AllBuckets {
		leaves := leafPages{size: int64(os.Getpagesize())}
		err := tx.UnsafeForEach(bucket, func(key, value []byte) error {
			leaves.add(int64(len(key) + len(value)))
			return nil
		})
		if err != nil {
			return 0, err
		}
		bytes += leaves.bytes()
	}
	return bytes, nil
}

// leafPages counts the pages into which a defragmentation puts records. bbolt begins another leaf
// once one is nine tenths full, but each has at least two records, and whole pages.
type leafPages struct {
	size    int64 // of a page
	full    int64 // number of pages before the last leaf
	records int   // in the last leaf
	last    int64 // bytes of the last leaf
}

// leafOverhead is what bbolt stores besides a record, and in each leaf.
const leafOverhead = 16

func (p *leafPages) add(bytes int64) {
	bytes += leafOverhead
	if p.records >= 2 && p.last+bytes > p.size*9/10 {
		p.full = p.pages()
		p.records, p.last = 0, 0
	}
	if p.records == 0 {
		p.last = leafOverhead
	}
	p.records++
	p.last += bytes
}

func (p *leafPages) pages() int64 { return p.full + (p.last+p.size-1)/p.size }
func (p *leafPages) bytes() int64 { return p.pages() * p.size }
