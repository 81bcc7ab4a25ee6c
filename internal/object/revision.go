package object

import "fmt"

// Revision is an etcd revision: the number of the transaction that made a change.
// It is the same on every replica. Zero is before the first change.
type Revision int64

// Epoch identifies a revision space. Revisions of different epochs have nothing
// to do with each other. Epochs are opaque and comparable.
type Epoch string

// Position is a place in the history of a resource: every change up to and
// including Revision is behind it.
type Position struct {
	Epoch    Epoch
	Revision Revision
}

// String returns the position as "epoch/revision", for logs.
func (p Position) String() string { return fmt.Sprintf("%s/%d", p.Epoch, p.Revision) }
