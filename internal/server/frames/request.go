package frames

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"
)

const (
	// WindowBytes is the window of a stream: how much of a request gRPC accepts before a
	// handler reads it. Messages after the first one may not be larger.
	WindowBytes = 64 << 10

	// prefixBytes precede each gRPC message: whether it is compressed, and its size.
	prefixBytes = 5
)

// gRPC keeps a buffer for each frame, so a message in tiny frames takes many times its size
// of memory. A message may come in so many frames, and in one more for each bytesPerFrame.
const (
	spareFrames   = 64
	bytesPerFrame = 256
)

// The violations of a request; see [Request.Violation].
var (
	errTinyFrames   = errors.New("the request comes in too many frames for its size")
	errLargeMessage = errors.New("a message after the first one is larger than the window of a stream")
	errCompressed   = errors.New("a message after the first one is compressed")
)

// Request is what has come of a request so far. The goroutine that reads the connection
// adds to it. A request that violates a rule ends its own stream, never the connection,
// which other requests share.
type Request struct {
	conn     *Conn
	id       uint32 // of the stream
	violated bool   // the violation is handled; only the reading goroutine uses it

	mu          sync.Mutex
	prefix      [prefixBytes]byte // guarded by mu; of the current message
	prefixRead  int               // guarded by mu; bytes of prefix that have come
	messageLeft int64             // guarded by mu; bytes of the current message that are still to come
	messageRead int64             // guarded by mu; bytes of the current message that have come
	frames      int64             // guarded by mu; frames of the current message
	size        int64             // guarded by mu; of the first message
	compressed  bool              // guarded by mu; the first message is compressed
	prefixSeen  bool              // guarded by mu; the prefix of the first message has come
	sizeKnown   bool              // guarded by mu; so has all of the frame with that prefix
	complete    bool              // guarded by mu; the first message has come
	ended       bool              // guarded by mu; the client sends nothing more
	violation   error             // guarded by mu; nil: none
	changed     chan struct{}     // guarded by mu; closed when sizeKnown or ended; nil: nobody waits
}

// SetClient notes the name of the client that has authenticated. If the client abandons the
// request, that counts for the client and not for its host.
func (r *Request) SetClient(name string) {
	r.conn.with(r.id, func(s *clientStream) { s.client = name })
}

// Violation returns the rule that the client has violated with this request, or nil.
func (r *Request) Violation() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.violation
}

// violate notes a violation. It is called with mu held. The reading goroutine then ends the
// stream; see Conn.endViolator.
func (r *Request) violate(err error) {
	if r.violation == nil {
		r.violation = err
	}
}

// addData adds bytes of messages.
func (r *Request) addData(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(b) > 0 {
		if r.prefixRead < prefixBytes {
			n := copy(r.prefix[r.prefixRead:], b)
			b = b[n:]
			if r.prefixRead += n; r.prefixRead == prefixBytes {
				r.beginMessage()
			}
			continue
		}
		n := min(r.messageLeft, int64(len(b)))
		b = b[n:]
		r.messageLeft -= n
		r.messageRead += n
		r.checkComplete()
	}
}

// beginMessage is called with mu held when a prefix has come.
func (r *Request) beginMessage() {
	r.messageLeft, r.messageRead, r.frames = int64(binary.BigEndian.Uint32(r.prefix[1:])), 0, 0
	switch {
	case !r.prefixSeen:
		r.size, r.compressed, r.prefixSeen = r.messageLeft, r.prefix[0] != 0, true
	// Most requests have one message only, and no memory is reserved for others.
	case r.messageLeft > WindowBytes:
		r.violate(errLargeMessage)
	case r.prefix[0] != 0: // it may be large when it is decompressed
		r.violate(errCompressed)
	}
	r.checkComplete()
}

// checkComplete is called with mu held when more of a message has come.
func (r *Request) checkComplete() {
	if r.messageLeft == 0 {
		r.complete = true
		r.prefixRead = 0
	}
}

// endFrame is called when gRPC has received all of a frame. end means that it is the last.
func (r *Request) endFrame(end bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.frames++
	r.ended, r.sizeKnown = r.ended || end, r.prefixSeen
	if r.changed != nil && (r.sizeKnown || r.ended) {
		close(r.changed)
		r.changed = nil
	}
	if r.frames > spareFrames+r.messageRead/bytesPerFrame {
		r.violate(errTinyFrames)
	}
}

// Arrived reports whether all of the request has come, and nothing follows.
func (r *Request) Arrived() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended && r.complete
}

// AwaitSize waits until the size of the first message is known, the client has ended the
// stream, or ctx is done. It returns size 0 if there is no message. complete means that all
// of the message has come: what one frame contains comes at once, even if gRPC reads the
// frame in pieces.
func (r *Request) AwaitSize(ctx context.Context) (size int64, compressed, complete bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.sizeKnown && !r.ended {
		changed := make(chan struct{})
		r.changed = changed
		r.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		r.mu.Lock()
	}
	return r.size, r.compressed, r.complete
}
