package object

import (
	"errors"
	"fmt"

	"github.com/dustin/go-humanize"
)

// Database is the size of the database of an embedded etcd, and the space for it, in bytes.
type Database struct {
	Size     int64 // of the file
	InUse    int64 // used part of the file; etcd reuses the rest, and a defragmentation frees it
	Quota    int64 // the size at which writes are refused
	DiskFree int64 // available on the disk
	DiskFull bool  // puts are refused because of the disk
}

// WriteCounts counts the writes of a member of several that did not simply succeed.
type WriteCounts struct {
	SentAgain  int64 // attempts after the first one
	NotApplied int64 // writes that ended, and were certainly not applied
	Unknown    int64 // writes that ended, and may have been applied
}

// Reclaimed is what reclaiming the space of an embedded etcd has changed.
type Reclaimed struct {
	Before, After int64    // size of the database file, in bytes
	Quota         int64    // size at which etcd refuses writes
	Compacted     Revision // older revisions are no longer known; 0: the history was kept
	Cleared       bool     // etcd had reached the quota and accepts writes again
}

// ErrNotEmbedded means that an operation is possible only with an embedded etcd.
var ErrNotEmbedded = errors.New("the server uses an external etcd")

// SpaceError means that the disk of an embedded etcd has too little free space. It wraps
// [ErrNoSpace].
type SpaceError struct {
	What         string // needs the space
	Needed, Free int64  // bytes
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("%s needs %s of free space on the disk of embedded etcd, which has %s",
		e.What, humanize.IBytes(uint64(e.Needed)), humanize.IBytes(uint64(e.Free)))
}

func (e *SpaceError) Unwrap() error { return ErrNoSpace }
