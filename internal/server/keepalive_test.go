package server_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/poll"
)

// The parts of HTTP/2 (RFC 9113) that the test needs. gRPC's own client cannot be made to
// ping often enough.
const (
	http2Preface     = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	http2HeaderBytes = 9

	http2Settings byte = 4
	http2Ping     byte = 6
	http2GoAway   byte = 7

	http2EnhanceYourCalm = 11
)

func http2Frame(kind byte, payload []byte) []byte {
	frame := make([]byte, http2HeaderBytes, http2HeaderBytes+len(payload))
	frame[2], frame[3] = byte(len(payload)), kind
	return append(frame, payload...)
}

func TestClientsThatPingTooOftenAreDisconnected(t *testing.T) {
	in := start(t, settings{})
	conn, err := net.Dial("tcp", in.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	hello := append([]byte(http2Preface), http2Frame(http2Settings, nil)...)
	for range 10 {
		hello = append(hello, http2Frame(http2Ping, make([]byte, 8))...)
	}
	if _, err := conn.Write(hello); err != nil {
		t.Fatal(err)
	}
	const maxFrames = 100
	header := make([]byte, http2HeaderBytes)
	for range maxFrames {
		if _, err := io.ReadFull(conn, header); err != nil {
			t.Fatalf("got %v, want GOAWAY before the connection ends", err)
		}
		payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		if header[3] != http2GoAway {
			continue
		}
		if code := binary.BigEndian.Uint32(payload[4:]); code != http2EnhanceYourCalm || !strings.Contains(string(payload[8:]), "too_many_pings") {
			t.Errorf("got GOAWAY with code %d, %q; want %d, too_many_pings", code, payload[8:], http2EnhanceYourCalm)
		}
		return
	}
	t.Fatalf("got no GOAWAY in %d frames", maxFrames)
}
