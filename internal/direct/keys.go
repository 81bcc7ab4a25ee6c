package direct

import (
	"strings"

	"github.com/fanoutd/fanoutd/internal/object"
)

// What watchers are told that lacks values for want of a key is of an epoch of its own,
// as with a cacher (see [cacher.MissingKeys]). Reads alone do not make it so: each is read
// afresh, and one of the past may be of a key that is long gone.

// epoch returns the epoch of what is served, given that of the store.
func (s *Source) epoch(ofStore object.Epoch) object.Epoch {
	s.missing.RemoveArrived()
	if !s.missing.Any() {
		return ofStore
	}
	return s.missing.Epoch(ofStore)
}

// plain returns the epoch of the store, given one of what is served.
func plain(epoch object.Epoch) object.Epoch {
	ofStore, _, _ := strings.Cut(string(epoch), "~")
	return object.Epoch(ofStore)
}
