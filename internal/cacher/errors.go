package cacher

import (
	"errors"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// ErrNotReady means that the cacher has not been filled yet. The caller tries again
// soon.
var ErrNotReady = errors.New("the resource is still being loaded")

// FutureError means that the requested revision does not exist: the store has not
// reached it.
type FutureError struct {
	Asked   object.Revision
	Current object.Revision // of the store
}

func (e *FutureError) Error() string {
	return fmt.Sprintf("revision %d does not exist yet, the store is at %d", e.Asked, e.Current)
}

// BehindError means that the cacher did not reach a revision in time. The caller tries
// again soon, at this replica or at another.
type BehindError struct {
	Asked object.Revision
	Have  object.Revision
}

func (e *BehindError) Error() string {
	return fmt.Sprintf("revision %d has not arrived yet, have %d", e.Asked, e.Have)
}

// Reasons to give up a watch of the store that has not failed.
var (
	ErrSilentWatch  = errors.New("the watch is silent although the store has newer revisions")
	ErrEpochChanged = errors.New("the store's epoch has changed")
)

// Reasons why the cacher gives up its watch, and lists everything again.
var (
	errWentBack   = errors.New("the store is at an older revision than before")
	errMismatch   = errors.New("the state differs from the store")
	errKeyMissing = errors.New("a value is encrypted with a key that this server does not have")
	errKeyArrived = errors.New("a missing decryption key has arrived")
)
