package store

import (
	"cmp"
	"sync/atomic"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// pageSize is the number of records to read at once. etcd counts records, and has no limit for
// their bytes. So the number follows the sizes of the records that were read before: a page has
// about maxBytes, unless the records are much larger than those before them.
type pageSize struct {
	maxBytes int
	records  atomic.Int64 // 0: firstPageRecords
	halvings atomic.Int32 // of maxBytes, because pages were too large for the connection
}

// firstPageRecords is the size of a first page. Even with the largest values it takes about
// 50 MiB.
const firstPageRecords = 32

// pageBytes is the intended size of a page. A watch of a resource without a cache holds one page of
// its snapshot while its client does not read.
const pageBytes = 4 << 20

// next returns the number of records to read, which is at most limit.
func (p *pageSize) next(limit int) int { return min(p.get(), limit) }

func (p *pageSize) get() int { return cmp.Or(int(p.records.Load()), firstPageRecords) }

// note notes how many records were read, and their size. Pages shrink at once, but grow only
// after full pages, to twice their size.
func (p *pageSize) note(records, bytes int) {
	if records == 0 {
		return
	}
	size := p.get()
	if records >= size {
		size *= 2
	}
	p.records.Store(int64(max(1, min(size, p.maxBytes>>p.halvings.Load()*records/max(1, bytes)))))
}

// maxHalvings limits how small pages become, because connections differ.
const maxHalvings = 4

// shrink notes that a page of so many records was too large for the connection. It returns
// false if there is no smaller page.
func (p *pageSize) shrink(records int) bool {
	if records <= 1 {
		return false
	}
	p.records.Store(int64(records / 2))
	if n := p.halvings.Load(); n < maxHalvings {
		p.halvings.CompareAndSwap(n, n+1)
	}
	return true
}

// sizeOf returns the size of the keys and values of records.
func sizeOf(kvs []*mvccpb.KeyValue) (bytes int) {
	for _, kv := range kvs {
		bytes += len(kv.Key) + len(kv.Value)
	}
	return bytes
}
