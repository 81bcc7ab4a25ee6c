package frames

import (
	"context"
	"encoding/binary"
	"sync"
)

const (
	// WindowBytes is how much of a request gRPC takes before somebody reads it, and how
	// large messages may be that come behind the first one.
	WindowBytes = 64 << 10

	// prefixBytes come before each message of gRPC: whether it is compressed, and its
	// size.
	prefixBytes = 5
)

// Request is what has come of a request. The goroutine that reads its connection adds
// to it.
type Request struct {
	endStream func() // ends the stream

	mu          sync.Mutex
	prefix      [prefixBytes]byte // guarded by mu; of the message that comes
	prefixRead  int               // guarded by mu; bytes of the prefix
	messageLeft int64             // guarded by mu; bytes of the message that are to come
	messageRead int64             // guarded by mu; bytes of the message
	frames      int64             // guarded by mu; that the message has come in
	size        int64             // guarded by mu; size of the first message
	compressed  bool              // guarded by mu; the first message is compressed
	prefixSeen  bool              // guarded by mu; the size of the first message has come
	sizeKnown   bool              // guarded by mu; so has the rest of the frame that has it
	complete    bool              // guarded by mu; the first message has come
	ended       bool              // guarded by mu; nothing comes any more
	changed     chan struct{}     // guarded by mu; closed when known or ended; nil: nobody waits
}

// addData notes bytes of messages.
func (in *Request) addData(b []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(b) > 0 {
		if in.prefixRead < prefixBytes {
			n := copy(in.prefix[in.prefixRead:], b)
			b = b[n:]
			if in.prefixRead += n; in.prefixRead == prefixBytes {
				in.beginMessage()
			}
			continue
		}
		n := min(in.messageLeft, int64(len(b)))
		b = b[n:]
		in.messageLeft -= n
		in.messageRead += n
		in.checkComplete()
	}
}

// beginMessage is called with mu held when a prefix is there.
func (in *Request) beginMessage() {
	in.messageLeft, in.messageRead, in.frames = int64(binary.BigEndian.Uint32(in.prefix[1:])), 0, 0
	if in.prefixSeen {
		// There is nothing to read behind the one message of most requests, and no
		// room has been taken for more.
		if in.messageLeft > WindowBytes {
			in.endStream()
		}
	} else {
		in.size, in.compressed, in.prefixSeen = in.messageLeft, in.prefix[0] != 0, true
	}
	in.checkComplete()
}

// checkComplete is called with mu held when more of a message is there.
func (in *Request) checkComplete() {
	if in.messageLeft == 0 {
		in.complete = true
		in.prefixRead = 0
	}
}

// endFrame notes that gRPC has been given all of a frame.
func (in *Request) endFrame(end bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.frames++
	in.ended, in.sizeKnown = in.ended || end, in.prefixSeen
	if in.changed != nil && (in.sizeKnown || in.ended) {
		close(in.changed)
		in.changed = nil
	}
	if in.frames > spareFrames+in.messageRead/bytesPerFrame {
		return errTinyFrames
	}
	return nil
}

// AwaitSize waits until the size of the first message is known, nothing comes any more or
// ctx is done. Zero: there is none. It also says whether it is compressed, and whether
// all of it is there: what comes in one frame is there at once, even where gRPC reads it
// in pieces.
func (in *Request) AwaitSize(ctx context.Context) (size int64, packed, whole bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.sizeKnown && !in.ended {
		changed := make(chan struct{})
		in.changed = changed
		in.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		in.mu.Lock()
	}
	return in.size, in.compressed, in.complete
}
