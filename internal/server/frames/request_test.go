package frames

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
)

// AwaitSize returns only after a whole frame, in however many pieces gRPC reads it.
func TestAwaitSizeWaitsForTheWholeFrame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		message := append(binary.BigEndian.AppendUint32([]byte{0}, size), make([]byte, size)...)
		r := &Request{}
		r.addData(message[:100])
		answered := false
		go func() {
			got, compressed, complete := r.AwaitSize(t.Context())
			if got != size || compressed || !complete {
				t.Errorf("got size %d, compressed %v, complete %v; want %d, false, true", got, compressed, complete, size)
			}
			answered = true
		}()
		synctest.Wait()
		if answered {
			t.Error("AwaitSize returned after a part of a frame")
		}
		r.addData(message[100:])
		r.endFrame(false)
		synctest.Wait()
		if !answered {
			t.Error("AwaitSize did not return after the frame")
		}
	})
}

// A message in tiny frames violates a rule. A message of many large frames does not.
func TestMessagesInTinyFramesAreViolations(t *testing.T) {
	for name, c := range map[string]struct {
		frameBytes int
		want       error
	}{
		"tiny":  {1, errTinyFrames},
		"large": {bytesPerFrame, nil},
	} {
		r := &Request{}
		r.addData(binary.BigEndian.AppendUint32([]byte{0}, 1<<20))
		for range 10 * spareFrames {
			r.addData(make([]byte, c.frameBytes))
			r.endFrame(false)
		}
		if got := r.Violation(); got != c.want {
			t.Errorf("%s frames: got violation %v, want %v", name, got, c.want)
		}
	}
}

// A message after the first one violates a rule if it is larger than the window, or compressed.
func TestLaterMessagesAreSmallAndNotCompressed(t *testing.T) {
	for name, c := range map[string]struct {
		compressed byte
		size       uint32
		want       error
	}{
		"small":      {0, WindowBytes, nil},
		"large":      {0, WindowBytes + 1, errLargeMessage},
		"compressed": {1, 1, errCompressed},
	} {
		r := &Request{}
		r.addData([]byte{1, 0, 0, 0, 1, 0}) // the first message may be compressed
		r.addData(binary.BigEndian.AppendUint32([]byte{c.compressed}, c.size))
		if got := r.Violation(); got != c.want {
			t.Errorf("%s: got violation %v, want %v", name, got, c.want)
		}
	}
}
