package frames

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"golang.org/x/net/http2"
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

// Conn is a connection that notes what has come of each request. It reads ahead in
// place of gRPC, and never gives away more than the frame that gRPC is reading: so what
// it says of a frame is said when gRPC has dealt with all before it.
type Conn struct {
	net.Conn
	buffered *bufio.Reader

	// The frame that is being read. It belongs to the goroutine that reads.
	preface     int // bytes that are to come before the first frame
	header      [frameHeaderBytes]byte
	headerRead  int // bytes of the header
	payloadLeft int // bytes of the payload that are to come
	padding     int // of those at the end; negative: their number comes first
	request     *Request
	endsStream  bool // the headers of the request have no body

	mu      sync.Mutex
	streams map[uint32]*Request // guarded by mu; requests that have not come to their end
}

func NewConn(conn net.Conn) *Conn {
	return &Conn{
		Conn: conn, buffered: bufio.NewReaderSize(conn, readBufferBytes), preface: len(http2.ClientPreface),
		headerRead: frameHeaderBytes, streams: map[uint32]*Request{},
	}
}

// Read implements net.Conn.
func (f *Conn) Read(b []byte) (int, error) {
	switch {
	case f.preface > 0:
		n, err := f.buffered.Read(b[:min(len(b), f.preface)])
		f.preface -= n
		return n, err
	case f.payloadLeft > 0:
		n, err := f.buffered.Read(b[:min(len(b), f.payloadLeft)])
		f.payload(b[:n])
		return n, err
	case f.headerRead == frameHeaderBytes:
		if err := f.endFrame(); err != nil {
			return 0, err
		}
	}
	n, err := f.buffered.Read(b[:min(len(b), frameHeaderBytes-f.headerRead)])
	copy(f.header[f.headerRead:], b[:n])
	if f.headerRead += n; f.headerRead == frameHeaderBytes {
		f.beginFrame()
	}
	return n, err
}

func (f *Conn) frameType() http2.FrameType { return http2.FrameType(f.header[3]) }

func (f *Conn) hasFlag(flag http2.Flags) bool { return http2.Flags(f.header[4]).Has(flag) }

func (f *Conn) streamID() uint32 { return binary.BigEndian.Uint32(f.header[5:]) & streamIDMask }

// beginFrame is called when the header of a frame is there.
func (f *Conn) beginFrame() {
	f.payloadLeft = int(f.header[0])<<16 | int(f.header[1])<<8 | int(f.header[2])
	switch f.frameType() {
	case http2.FrameData:
		f.mu.Lock()
		f.request = f.streams[f.streamID()]
		f.mu.Unlock()
		f.padding = 0
		if f.hasFlag(http2.FlagDataPadded) {
			f.padding = -1
		}
	case http2.FrameHeaders:
		f.endsStream = f.hasFlag(http2.FlagHeadersEndStream)
	}
}

// payload is called with what comes behind the header of a frame.
func (f *Conn) payload(b []byte) {
	f.payloadLeft -= len(b)
	if f.frameType() != http2.FrameData || f.request == nil || len(b) == 0 {
		return
	}
	if f.padding < 0 {
		f.padding = int(b[0])
		b = b[1:]
	}
	if beyond := f.padding - f.payloadLeft; beyond > 0 {
		b = b[:max(len(b)-beyond, 0)]
	}
	f.request.addData(b)
}

// endFrame is called when gRPC has dealt with a frame.
func (f *Conn) endFrame() error {
	f.headerRead = 0
	in := f.request
	f.request = nil
	switch {
	case f.frameType() == http2.FrameRSTStream:
		f.forget(f.streamID())
	case f.frameType() == http2.FrameData && in != nil:
		end := f.hasFlag(http2.FlagDataEndStream)
		if end {
			f.forget(f.streamID())
		}
		return in.endFrame(end)
	}
	return nil
}

// Open begins to note what comes of the request whose headers have just been read. It
// is called by the goroutine that reads.
func (f *Conn) Open(cut func()) (in *Request, forget func()) {
	in, id := &Request{endStream: cut, ended: f.endsStream}, f.streamID()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams[id] = in
	return in, func() { f.forget(id) }
}

func (f *Conn) forget(id uint32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.streams, id)
}
