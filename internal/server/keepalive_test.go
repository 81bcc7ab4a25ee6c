package server_test

import (
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
)

// What the test needs of HTTP/2 (RFC 9113): gRPC's own client does not ping
// often enough to be a nuisance.
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

func TestAClientThatPingsTooOftenIsSentAway(t *testing.T) {
	in := start(t, settings{})
	conn, err := net.Dial("tcp", in.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if deadline, ok := within(t).Deadline(); ok {
		if err := conn.SetDeadline(deadline); err != nil {
			t.Fatal(err)
		}
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
			t.Fatalf("the connection ends without a word: %v", err)
		}
		payload := make([]byte, int(header[0])<<16|int(header[1])<<8|int(header[2]))
		if _, err := io.ReadFull(conn, payload); err != nil {
			t.Fatal(err)
		}
		if header[3] != http2GoAway {
			continue
		}
		if code := binary.BigEndian.Uint32(payload[4:]); code != http2EnhanceYourCalm || !strings.Contains(string(payload[8:]), "too_many_pings") {
			t.Errorf("sent away with code %d, %q", code, payload[8:])
		}
		return
	}
	t.Fatalf("not sent away within %d frames", maxFrames)
}
