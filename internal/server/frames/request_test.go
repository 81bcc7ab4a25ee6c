package frames

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
)

// A message that comes in one frame is there at once, however the frame is read: nobody
// may be told of a part of it.
func TestAFrameIsThereAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 1000
		message := append(binary.BigEndian.AppendUint32([]byte{0}, size), make([]byte, size)...)
		in := &Request{}
		in.addData(message[:100])
		answered := false
		go func() {
			got, packed, whole := in.AwaitSize(t.Context())
			if got != size || packed || !whole {
				t.Errorf("there are %d bytes, packed: %v, whole: %v", got, packed, whole)
			}
			answered = true
		}()
		synctest.Wait()
		if answered {
			t.Error("a part of a frame was told of")
		}
		in.addData(message[100:])
		if err := in.endFrame(false); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if !answered {
			t.Error("nobody was told of the frame")
		}
	})
}
