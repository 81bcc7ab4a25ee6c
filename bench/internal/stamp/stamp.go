package stamp

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"iter"
)

// mark is the beginning of a stamp. No other data contains these bytes.
const mark = "#fanoutbench#"

// Size is the length of a stamp in bytes.
const Size = len(mark) + 2*2*8

// Stamp is the number of an event and the time of its write.
type Stamp struct {
	Event   uint64 // counted from 0; the event changes key Event modulo the number of keys
	Written int64  // from Now, immediately before the write
}

// Append appends the stamp as text.
func (s Stamp) Append(b []byte) []byte {
	var raw [16]byte
	binary.BigEndian.PutUint64(raw[:8], s.Event)
	binary.BigEndian.PutUint64(raw[8:], uint64(s.Written))
	return hex.AppendEncode(append(b, mark...), raw[:])
}

// Value returns a value that begins with the stamp. It is size bytes long, or as long as
// the stamp if that is longer.
func (s Stamp) Value(size int) []byte {
	value := s.Append(make([]byte, 0, max(size, Size)))
	for len(value) < size {
		value = append(value, 'x')
	}
	return value
}

// All returns the stamps in a message, in order. It skips damaged stamps.
func All(message []byte) iter.Seq[Stamp] {
	return func(yield func(Stamp) bool) {
		for {
			i := bytes.Index(message, []byte(mark))
			if i < 0 || len(message) < i+Size {
				return
			}
			var raw [16]byte
			_, err := hex.Decode(raw[:], message[i+len(mark):i+Size])
			message = message[i+Size:]
			if err != nil {
				continue
			}
			s := Stamp{binary.BigEndian.Uint64(raw[:8]), int64(binary.BigEndian.Uint64(raw[8:]))}
			if !yield(s) {
				return
			}
		}
	}
}
