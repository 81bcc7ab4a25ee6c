package wire

import "github.com/fanoutd/fanoutd/internal/object"

// Encoder offers the functions of the package to those who are given an encoder
// instead of importing one.
type Encoder struct{}

// AppendEvent is [AppendEvent].
func (Encoder) AppendEvent(b []byte, e object.Event, v object.View) []byte {
	return AppendEvent(b, e, v)
}

// AddedEvent is [AddedEvent].
func (Encoder) AddedEvent(o *object.Object, v object.View) []byte { return AddedEvent(o, v) }
