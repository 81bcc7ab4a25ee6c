package frames

import (
	"encoding/binary"

	"golang.org/x/net/http2"
)

const (
	frameHeaderBytes = 9
	streamIDMask     = 1<<31 - 1
)

// frameHeader is the header of a frame (RFC 9113, section 4.1).
type frameHeader [frameHeaderBytes]byte

func (h *frameHeader) payloadBytes() int { return int(h[0])<<16 | int(h[1])<<8 | int(h[2]) }

func (h *frameHeader) kind() http2.FrameType { return http2.FrameType(h[3]) }

func (h *frameHeader) has(flag http2.Flags) bool { return http2.Flags(h[4]).Has(flag) }

func (h *frameHeader) stream() uint32 { return binary.BigEndian.Uint32(h[5:]) & streamIDMask }

// endsStream reports whether the frame is the last one of its stream in its direction.
func (h *frameHeader) endsStream() bool {
	// END_STREAM is the same flag in both.
	return (h.kind() == http2.FrameHeaders || h.kind() == http2.FrameData) && h.has(http2.FlagDataEndStream)
}
