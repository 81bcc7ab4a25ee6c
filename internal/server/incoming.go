package server

import (
	"context"
	"encoding/binary"
	"errors"
	"sync"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

const (
	// windowBytes is how much of a request gRPC takes before somebody reads it, and how
	// large messages may be that come behind the first one.
	windowBytes = 64 << 10

	// streamBytes is what is counted for a stream over which many requests come, for
	// as long as it lasts.
	streamBytes = 1 << 20

	// connectionWindowBytes is how much may be on its way on a connection. It limits no
	// memory: gRPC takes from the connection what a stream has room for.
	connectionWindowBytes = 1 << 20

	// prefixBytes come before each message of gRPC: whether it is compressed, and its
	// size.
	prefixBytes = 5

	// maxIncomingWaiting is how many requests wait for room at once, in which each has
	// a window.
	maxIncomingWaiting = 1000
)

// incoming is what has come of a request. The goroutine that reads its connection adds
// to it.
type incoming struct {
	cut func() // ends the stream

	mu      sync.Mutex
	prefix  [prefixBytes]byte // guarded by mu; of the message that comes
	have    int               // guarded by mu; bytes of the prefix
	left    int64             // guarded by mu; bytes of the message that are to come
	got     int64             // guarded by mu; bytes of the message
	frames  int64             // guarded by mu; that the message has come in
	first   int64             // guarded by mu; size of the first message
	packed  bool              // guarded by mu; the first message is compressed
	sized   bool              // guarded by mu; the size of the first message has come
	known   bool              // guarded by mu; so has the rest of the frame that has it
	whole   bool              // guarded by mu; the first message has come
	ended   bool              // guarded by mu; nothing comes any more
	changed chan struct{}     // guarded by mu; closed when known or ended; nil: nobody waits
}

// add notes bytes of messages.
func (in *incoming) add(b []byte) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for len(b) > 0 {
		if in.have < prefixBytes {
			n := copy(in.prefix[in.have:], b)
			b = b[n:]
			if in.have += n; in.have == prefixBytes {
				in.begin()
			}
			continue
		}
		n := min(in.left, int64(len(b)))
		b = b[n:]
		in.left -= n
		in.got += n
		in.complete()
	}
}

// begin is called with mu held when a prefix is there.
func (in *incoming) begin() {
	in.left, in.got, in.frames = int64(binary.BigEndian.Uint32(in.prefix[1:])), 0, 0
	if in.sized {
		// There is nothing to read behind the one message of most requests, and no
		// room has been taken for more.
		if in.left > windowBytes {
			in.cut()
		}
	} else {
		in.first, in.packed, in.sized = in.left, in.prefix[0] != 0, true
	}
	in.complete()
}

// complete is called with mu held when more of a message is there.
func (in *incoming) complete() {
	if in.left == 0 {
		in.whole = true
		in.have = 0
	}
}

// frame notes that gRPC has been given all of a frame.
func (in *incoming) frame(end bool) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.frames++
	in.ended, in.known = in.ended || end, in.sized
	if in.changed != nil && (in.known || in.ended) {
		close(in.changed)
		in.changed = nil
	}
	if in.frames > spareFrames+in.got/bytesPerFrame {
		return errTinyFrames
	}
	return nil
}

// await waits until the size of the first message is known, nothing comes any more or
// ctx is done. Zero: there is none. It also says whether it is compressed, and whether
// all of it is there: what comes in one frame is there at once, even where gRPC reads it
// in pieces.
func (in *incoming) await(ctx context.Context) (size int64, packed, whole bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if !in.known && !in.ended {
		changed := make(chan struct{})
		in.changed = changed
		in.mu.Unlock()
		select {
		case <-changed:
		case <-ctx.Done():
		}
		in.mu.Lock()
	}
	return in.first, in.packed, in.whole
}

// receive takes room for a request that has begun to come, which must be given back.
// Nobody takes any for what is there already: it is small.
func (l *limits) receive(ctx context.Context, info *grpc.StreamServerInfo) (*share, error) {
	c, ok := ctx.Value(cutoffKey{}).(*cutoff)
	if !ok || c.incoming == nil {
		return nil, nil
	}
	size, packed, whole := c.incoming.await(ctx)
	switch {
	case packed:
		size = int64(2 * l.RequestBytes) // more does not become a message
	case size > int64(l.RequestBytes):
		return nil, l.tooLarge(size)
	case whole:
		size = 0
	}
	if info.IsClientStream {
		size = max(size, streamBytes)
	}
	return l.room(ctx, size)
}

// room takes room for a request of a size, which must be given back.
func (l *limits) room(ctx context.Context, size int64) (*share, error) {
	if size == 0 {
		return nil, nil
	}
	patience := l.patience
	if _, waiting, _ := l.incoming.count(); waiting >= maxIncomingWaiting {
		patience = 0
	}
	s, err := l.incoming.take(ctx, clientOf(ctx), size, patience)
	if errors.Is(err, errNoTurn) {
		return nil, &apierr.LimitError{Reason: apierr.ReasonTooManyRequests, What: "bytes of requests on their way", Limit: float64(l.RequestMemory), RetryAfter: placeDelay}
	}
	return s, err
}
