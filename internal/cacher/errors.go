package cacher

import (
	"errors"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// ErrNotReady says that the cacher has not been filled yet. The caller tries
// again soon.
var ErrNotReady = errors.New("the resource is still being loaded")

// FutureError says that the asked revision has not been reached by the store
// either: it does not exist.
type FutureError struct {
	Asked   object.Revision
	Current object.Revision // the store's
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("revision %d does not exist yet, the store is at %d", e.Asked, e.Current)
}

// BehindError says that the cacher did not reach a revision in time. The caller
// tries again soon, here or at another replica.
type BehindError struct {
	Asked object.Revision
	Have  object.Revision
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("revision %d has not arrived yet, have %d", e.Asked, e.Have)
}
