package wire

import "github.com/fanoutd/fanoutd/internal/object"

// Encoder offers the functions of the package to those who are given an encoder
// instead of importing one.
type Encoder struct{}

// AppendEvent is [AppendEvent].
func (Encoder) AppendEvent(b []byte, t object.EventType, o *object.Object, at object.Revision) []byte {
	return AppendEvent(b, t, o, at)
}

// AddedEvent is [AddedEvent].
func (Encoder) AddedEvent(o *object.Object) []byte { return AddedEvent(o) }
