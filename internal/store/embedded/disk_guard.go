package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/dustin/go-humanize"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/storage/datadir"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"github.com/fanoutd/fanoutd/internal/store/embedded/disk"
)

// etcd ends the process when it cannot write to its disk. diskGuard prevents that: it
// allocates in advance what etcd may write, and refuses writes if it cannot.
const (
	// minFreeBytes is the free space below which puts are refused.
	minFreeBytes = 32 << 20

	// recoverBytes is how much more free space is needed before puts are accepted again.
	recoverBytes = 8 << 20

	// reserveBytes is the size of the reserve file. It is removed if there is no space for
	// anything else: to start etcd on a full disk, and to let objects be deleted.
	reserveBytes = 32 << 20

	// emptyBytes is the free space below which a deletion needs the reserve file.
	emptyBytes = 4 << 20

	// databaseAheadBytes is how much of the database file is allocated in advance, besides
	// twice the size of the recent writes. maxDatabaseAheadBytes limits the sum.
	databaseAheadBytes    = 8 << 20
	maxDatabaseAheadBytes = 64 << 20

	// startBytes is the free space without which etcd cannot start: the next file of the
	// write-ahead log and some pages of the database.
	startBytes = walSegmentBytes + 8<<20

	// The guard looks at the disk at this interval, and before a write if those since then have so
	// many bytes. That is much less than what is allocated in advance.
	diskCheckInterval = 100 * time.Millisecond
	diskCheckBytes    = 1 << 20

	// pendingTime is the time after which a write is certainly in the database file. etcd
	// commits ten times per second.
	pendingTime = time.Second
)

// diskGuard keeps an embedded etcd from running out of disk space.
//
// etcd writes three kinds of files. It allocates the files of the write-ahead log one ahead,
// and never recovers if that fails; the guard allocates another one, under the name that
// etcd will use. Of the database, the guard allocates the part that etcd will write next. Without
// either, TestDiskFilledByOthers finds that etcd has failed.
// For the small files of raft snapshots it keeps some space free, and etcd survives if one
// cannot be written, see [isSnapshotOnFullDisk].
type diskGuard struct {
	dir     string // of the member
	reserve string // path of the reserve file
	log     *slog.Logger

	mu sync.Mutex // guards everything below

	size      func() (file, inUse int64) // of the database; nil: etcd has not started
	free      int64                      // at the last check
	state     diskState                  // at the last check
	unchecked int64                      // bytes of the writes since the last check
	recent    [2]int64                   // bytes of the writes in this and in the last interval of pendingTime
	rotated   time.Time                  // when the current interval began
	lent      bool                       // the space of the reserve file is used for something else
	allocated int64                      // the database file is allocated up to here
	inode     uint64                     // of that file; a defragmentation replaces it
}

// diskState is the kind of writes that the disk has room for.
type diskState int

const (
	diskOK      diskState = iota
	diskLow               // for deletions only
	diskFull              // for none
	diskUnknown           // the free space cannot be read: for all
)

// openDisk makes room for the start of etcd in a data directory. It fails if there is too
// little.
func openDisk(dataDir, memberDir string, log *slog.Logger) (*diskGuard, error) {
	g := &diskGuard{dir: memberDir, reserve: filepath.Join(dataDir, "reserve"), log: log, rotated: time.Now()}
	for _, path := range g.spareSegments() {
		// etcd would not clear a file that was left half-written, and read its rest as records:
		// TestUnfinishedLogFiles.
		if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove an unused file of the write-ahead log: %w", err)
		}
	}
	needed := int64(startBytes)
	if names, _ := directory.LogFiles(datadir.ToWALDir(memberDir)); len(names) == 0 {
		needed += walSegmentBytes
	}
	free, err := disk.Free(dataDir)
	if err == nil && free < needed {
		if err := os.Remove(g.reserve); err != nil && !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("remove the reserve file: %w", err)
		}
		free, err = disk.Free(dataDir)
	}
	if err != nil {
		log.Warn("cannot watch the free space of the disk of embedded etcd", "error", err)
		return g, nil
	}
	if free < needed {
		return nil, fmt.Errorf("the disk of %s has %s of free space, and at least %s are needed to start: %w",
			dataDir, humanize.IBytes(uint64(free)), humanize.IBytes(uint64(needed)), object.ErrNoSpace)
	}
	return g, nil
}

// spareSegments returns the paths of the next files of the write-ahead log. etcd uses the
// two names in turn.
func (g *diskGuard) spareSegments() [2]string {
	dir := datadir.ToWALDir(g.dir)
	return [2]string{filepath.Join(dir, "0.tmp"), filepath.Join(dir, "1.tmp")}
}

// begin makes the guard ready for writes. Size returns the size of the database and of its
// used part.
func (g *diskGuard) begin(size func() (file, inUse int64)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.size = size
	g.check(0, false)
}

// run looks at the disk until ctx is done, so that changes are noticed without writes.
func (g *diskGuard) run(ctx context.Context) {
	ticker := time.NewTicker(diskCheckInterval)
	defer ticker.Stop()
	for {
		g.mu.Lock()
		g.check(0, false)
		g.mu.Unlock()
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// admit allows a write of so many bytes, or fails with [object.ErrNoSpace]. A deletion has 0
// bytes.
func (g *diskGuard) admit(bytes int64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.unchecked += bytes; g.state != diskOK || g.unchecked > diskCheckBytes {
		g.check(bytes, bytes == 0)
	}
	if g.state == diskFull || g.state == diskLow && bytes > 0 {
		return fmt.Errorf("%w: the disk of embedded etcd has %s of free space", object.ErrNoSpace, humanize.IBytes(uint64(g.free)))
	}
	g.recent[0] += bytes
	return nil
}

// status returns the free space and whether all writes are accepted.
func (g *diskGuard) status() (free int64, accepts bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.free, g.state == diskOK || g.state == diskUnknown
}

// check allocates what etcd may write next, with a further write of so many bytes, and sets the
// state. Deletion means that the write is a deletion. The caller holds mu.
func (g *diskGuard) check(bytes int64, deletion bool) {
	if g.size == nil {
		return
	}
	g.unchecked = 0
	if now := time.Now(); now.Sub(g.rotated) > pendingTime {
		g.recent[1], g.recent[0] = g.recent[0], 0
		g.rotated = now
	}
	before := g.state
	g.state = g.examine(bytes, deletion)
	if g.state == before {
		return
	}
	attrs := []any{"free", humanize.IBytes(uint64(g.free)), "directory", g.dir}
	switch g.state {
	case diskLow:
		g.log.Warn("the disk of embedded etcd is nearly full: puts are refused", attrs...)
	case diskFull:
		g.log.Error("the disk of embedded etcd is full: all writes are refused", attrs...)
	case diskUnknown:
		g.log.Warn("cannot read the free space of the disk of embedded etcd", "directory", g.dir)
	case diskOK:
		g.log.Info("the disk of embedded etcd has space again: writes are accepted", attrs...)
	}
}

func (g *diskGuard) examine(bytes int64, deletion bool) diskState {
	spare := g.allocateSegments()
	ahead := g.allocateDatabase(g.recent[0] + g.recent[1] + bytes)
	free, err := disk.Free(g.dir)
	if err != nil {
		return diskUnknown
	}
	reserve, _ := disk.Allocated(g.reserve)
	// Without the next file of the write-ahead log, not even a deletion is possible. Otherwise the
	// reserve is kept for the first deletion: whatever has filled the disk would take its space.
	if (!spare || deletion && free < emptyBytes) && reserve > 0 && os.Remove(g.reserve) == nil {
		g.log.Warn("removed the reserve file, because the disk of embedded etcd is full", "path", g.reserve)
		reserve = 0
		spare = g.allocateSegments()
		if free, err = disk.Free(g.dir); err != nil {
			return diskUnknown
		}
	}
	if !g.lent && free >= minFreeBytes+reserveBytes && reserve < reserveBytes && g.allocate(g.reserve, reserveBytes) == nil {
		free -= reserveBytes - reserve
		reserve = reserveBytes
	}
	g.free = free
	file, inUse := g.size()
	unused := file - inUse // pages of the database that etcd uses before it needs more space
	enough := int64(minFreeBytes)
	if g.state == diskLow || g.state == diskFull {
		enough += recoverBytes
	}
	switch {
	case !spare, free < emptyBytes && reserve == 0:
		return diskFull
	// Without the reserve file, the free space is for deletions. A put may need another file
	// of the write-ahead log even where the database has unused pages.
	case !ahead, reserve < reserveBytes, free < emptyBytes, free < enough && unused < enough:
		return diskLow
	}
	return diskOK
}

// allocateSegments allocates the next files of the write-ahead log. etcd has already
// allocated one of them, or is about to.
func (g *diskGuard) allocateSegments() bool {
	for _, path := range g.spareSegments() {
		info, err := os.Stat(path)
		if (err != nil || info.Size() < walSegmentBytes) && g.allocate(path, walSegmentBytes) != nil {
			return false
		}
	}
	return true
}

// allocateDatabase allocates the part of the database file that etcd may write next. Recent is
// the size of the writes that may not be in the file yet.
func (g *diskGuard) allocateDatabase(recent int64) bool {
	path := datadir.ToBackendFileName(g.dir)
	have, inode := disk.Allocated(path)
	if inode != g.inode {
		g.inode, g.allocated = inode, 0
	}
	file, _ := g.size()
	ahead := min(databaseAheadBytes+2*recent, maxDatabaseAheadBytes)
	if inode == 0 || file+ahead <= g.allocated {
		return true
	}
	until := file + ahead + databaseAheadBytes // more, so that the next call is later
	if have >= until {
		g.allocated = until
		return true
	}
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return true // it will be tried again
	}
	defer f.Close()
	if err := fileutil.Preallocate(f, until, false); err != nil {
		return !disk.Full(err)
	}
	g.allocated = until
	return true
}

// lendReserve removes the reserve file, so that something else can use its space. After the
// caller has returned it, the guard creates the file again once there is space.
func (g *diskGuard) lendReserve() (giveBack func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.lent = true
	if err := os.Remove(g.reserve); err == nil {
		g.log.Info("removed the reserve file to make room", "path", g.reserve)
	}
	return func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.lent = false
	}
}

// allocate creates a file with so many bytes of disk space, or extends it.
func (g *diskGuard) allocate(path string, bytes int64) error {
	// etcd may open the same file at the same time, so it is neither truncated nor removed.
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, fileutil.PrivateFileMode)
	if err != nil {
		return err
	}
	return errors.Join(fileutil.Preallocate(f, bytes, true), f.Close())
}
