package server

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"golang.org/x/net/http2"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
)

// What a connection reads ahead, which is little, because very many say next to nothing,
// and each has the memory; and the shape of its frames
// (RFC 9113, section 4.1).
const (
	readBufferBytes  = 512
	frameHeaderBytes = 9
	streamIDMask     = 1<<31 - 1
)

// A message comes in few frames, of at most 16 KiB. One in tiny frames would take many
// times its size of memory, so that whoever sends one in more than this loses the
// connection.
const (
	spareFrames   = 64
	bytesPerFrame = 256
)

var errTinyFrames = errors.New("a request comes in too many frames for its size")

// framed is a connection that notes what has come of each request. It reads ahead in
// place of gRPC, and never gives away more than the frame that gRPC is reading: so what
// it says of a frame is said when gRPC has dealt with all before it.
type framed struct {
	net.Conn
	ahead *bufio.Reader

	// The frame that is being read. It belongs to the goroutine that reads.
	preface  int // bytes that are to come before the first frame
	header   [frameHeaderBytes]byte
	have     int // bytes of the header
	left     int // bytes of the payload that are to come
	padding  int // of those at the end; negative: their number comes first
	incoming *incoming
	ended    bool // the headers of the request have no body

	mu      sync.Mutex
	streams map[uint32]*incoming // guarded by mu; requests that have not come to their end
	bare    context.Context      // guarded by mu; see context; nil until somebody asks for it
}

func newFramed(conn net.Conn) *framed {
	return &framed{
		Conn: conn, ahead: bufio.NewReaderSize(conn, readBufferBytes), preface: len(http2.ClientPreface),
		have: frameHeaderBytes, streams: map[uint32]*incoming{},
	}
}

// Read implements net.Conn.
func (f *framed) Read(b []byte) (int, error) {
	switch {
	case f.preface > 0:
		n, err := f.ahead.Read(b[:min(len(b), f.preface)])
		f.preface -= n
		return n, err
	case f.left > 0:
		n, err := f.ahead.Read(b[:min(len(b), f.left)])
		f.payload(b[:n])
		return n, err
	case f.have == frameHeaderBytes:
		if err := f.over(); err != nil {
			return 0, err
		}
	}
	n, err := f.ahead.Read(b[:min(len(b), frameHeaderBytes-f.have)])
	copy(f.header[f.have:], b[:n])
	if f.have += n; f.have == frameHeaderBytes {
		f.begin()
	}
	return n, err
}

func (f *framed) kind() http2.FrameType { return http2.FrameType(f.header[3]) }

func (f *framed) has(flag http2.Flags) bool { return http2.Flags(f.header[4]).Has(flag) }

func (f *framed) id() uint32 { return binary.BigEndian.Uint32(f.header[5:]) & streamIDMask }

// begin is called when the header of a frame is there.
func (f *framed) begin() {
	f.left = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	switch f.kind() {
	case http2.FrameData:
		f.mu.Lock()
		f.incoming = f.streams[f.id()]
		f.mu.Unlock()
		f.padding = 0
		if f.has(http2.FlagDataPadded) {
			f.padding = -1
		}
	case http2.FrameHeaders:
		f.ended = f.has(http2.FlagHeadersEndStream)
	}
}

// payload is called with what comes behind the header of a frame.
func (f *framed) payload(b []byte) {
	f.left -= len(b)
	if f.kind() != http2.FrameData || f.incoming == nil || len(b) == 0 {
		return
	}
	if f.padding < 0 {
		f.padding = int(b[0])
		b = b[1:]
	}
	if beyond := f.padding - f.left; beyond > 0 {
		b = b[:max(len(b)-beyond, 0)]
	}
	f.incoming.add(b)
}

// over is called when gRPC has dealt with a frame.
func (f *framed) over() error {
	f.have = 0
	in := f.incoming
	f.incoming = nil
	switch {
	case f.kind() == http2.FrameRSTStream:
		f.forget(f.id())
	case f.kind() == http2.FrameData && in != nil:
		end := f.has(http2.FlagDataEndStream)
		if end {
			f.forget(f.id())
		}
		return in.frame(end)
	}
	return nil
}

// open begins to note what comes of the request whose headers have just been read. It
// is called by the goroutine that reads.
func (f *framed) open(cut func()) (in *incoming, forget func()) {
	in, id := &incoming{cut: cut, ended: f.ended}, f.id()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams[id] = in
	return in, func() { f.forget(id) }
}

func (f *framed) forget(id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, id)
}

// context returns a context that is never done, and knows of a request with this one
// only what it knows of its connection. All requests share it.
func (f *framed) context(ctx context.Context) context.Context {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bare == nil {
		from, _ := peer.FromContext(ctx)
		f.bare = peer.NewContext(context.Background(), from)
	}
	return f.bare
}

// framedInfo is what is known of a connection from outside.
type framedInfo struct {
	credentials.AuthInfo
	conn *framed
}

// GetSecurityValue implements credentials.ChannelzSecurityInfo.
func (i framedInfo) GetSecurityValue() credentials.ChannelzSecurityValue {
	if known, ok := i.AuthInfo.(credentials.ChannelzSecurityInfo); ok {
		return known.GetSecurityValue()
	}
	return nil
}
