package object

import "context"

// Stream is a running watch of a store. Next and RequestProgress may be called
// from different goroutines, Next from one at a time.
type Stream interface {
	// Next waits for and returns what comes next. After an error the stream is
	// over.
	Next(ctx context.Context) (Update, error)

	// RequestProgress asks for an update that says how far the stream is. The
	// store may stay silent while the stream has changes to catch up with.
	RequestProgress(ctx context.Context) error

	// Close ends the stream and waits for its goroutines.
	Close()
}

// Update is a piece of a store's history.
type Update struct {
	// Records are the next changes in order of revision; all records of one
	// revision are in one update. May be empty.
	Records []Record

	// Through says that every change up to this revision has been delivered, by
	// this update and those before it. It never lies below the last record.
	Through Revision
}
