package surface

import (
	"bytes"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/fanoutd/fanoutd/test/seed"
)

// TestRandomBytes sends nonsense to both ports.
func TestRandomBytes(t *testing.T) {
	s := serve(t)
	all := methods(t)
	source := seed.New(t)
	var running sync.WaitGroup
	for i := range clients {
		running.Go(func() {
			g := &garbage{Rand: source.Rand(uint64(i)), methods: all}
			for n := 0; s.more(n, 60); n++ {
				address, sent := s.address, g.frames()
				switch g.IntN(6) {
				case 0:
					sent = g.bytes(4096)
				case 1:
					address, sent = s.admin, g.http()
				case 2:
					sent = g.spoilt(sent)
				case 3:
					address = s.admin
				}
				throw(t, address, sent, g.IntN(3) == 0)
			}
		})
	}
	running.Wait()
	s.settle()
}

// throw sends bytes over a new connection, and then reads the response for a moment, or
// nothing if deaf.
func throw(t *testing.T, address string, sent []byte, deaf bool) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Errorf("connect: %v", err)
		return
	}
	defer conn.Close()
	// Errors do not matter: the server may close the connection at any byte.
	_ = conn.SetDeadline(time.Now().Add(50 * time.Millisecond))
	_, _ = conn.Write(sent)
	if deaf {
		return
	}
	answer := make([]byte, 4096)
	for {
		if _, err := conn.Read(answer); err != nil {
			return
		}
	}
}

// garbage generates nonsense.
type garbage struct {
	*rand.Rand
	methods []method
}

func (g *garbage) bytes(most int) []byte {
	b := make([]byte, g.IntN(most))
	for i := range b {
		b[i] = byte(g.Uint32())
	}
	return b
}

// spoilt changes some bytes.
func (g *garbage) spoilt(b []byte) []byte {
	for range 1 + g.IntN(8) {
		if len(b) > 0 {
			b[g.IntN(len(b))] = byte(g.Uint32())
		}
	}
	return b
}

// http returns an HTTP/1.1 request in which anything may be wrong.
func (g *garbage) http() []byte {
	var b bytes.Buffer
	pick := func(of ...string) string { return of[g.IntN(len(of))] }
	path := pick("/", "/v1/resources", "/v1/resources/config/objects/"+words[g.IntN(len(words))], "/v1/resources/config/watch?prefix=a", "/v1/subscribe", "/openapi.json", "*", string(g.bytes(50)))
	b.WriteString(pick("GET", "PUT", "POST", "DELETE", "PRI", "CONNECT", string(g.bytes(8))) + " " + path + " " + pick("HTTP/1.1", "HTTP/1.0", "HTTP/2.0", "") + "\r\n")
	b.WriteString("Host: " + pick("localhost", "evil.example", "", string(g.bytes(10))) + "\r\n")
	for range g.IntN(5) {
		b.WriteString(pick("Content-Type: application/json", "Content-Length: 5", "Content-Length: -1", "Transfer-Encoding: chunked", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "Expect: 100-continue", string(g.bytes(40))) + "\r\n")
	}
	b.WriteString("\r\n")
	b.WriteString(pick(`{"text": "1"}`, "5\r\nhello\r\n0\r\n\r\n", "ffffffffffffffff\r\n", string(g.bytes(100))))
	return b.Bytes()
}

// frames returns an HTTP/2 connection whose frames are mostly well-formed, in random
// order.
func (g *garbage) frames() []byte {
	var b bytes.Buffer
	b.WriteString(http2.ClientPreface)
	f := http2.NewFramer(&b, nil)
	f.AllowIllegalWrites = true
	// Omit frames that the writer refuses to write.
	_ = f.WriteSettings(g.settings()...)
	for range g.IntN(60) {
		stream := uint32(g.IntN(20))
		switch g.IntN(11) {
		case 0, 1, 2:
			_ = f.WriteHeaders(http2.HeadersFrameParam{
				StreamID: stream, BlockFragment: g.headers(), EndStream: g.IntN(4) == 0, EndHeaders: g.IntN(8) != 0, PadLength: uint8(g.IntN(3)),
			})
		case 3, 4:
			_ = f.WriteData(stream, g.IntN(2) == 0, g.message())
		case 5:
			_ = f.WriteSettings(g.settings()...)
		case 6:
			_ = f.WriteWindowUpdate(stream, g.Uint32())
		case 7:
			_ = f.WriteRSTStream(stream, http2.ErrCode(g.IntN(20)))
		case 8:
			_ = f.WritePing(g.IntN(2) == 0, [8]byte(append(g.bytes(8), make([]byte, 8)...)))
		case 9:
			_ = f.WriteContinuation(stream, g.IntN(2) == 0, g.headers())
		case 10:
			_ = f.WriteRawFrame(http2.FrameType(g.IntN(256)), http2.Flags(g.Uint32()), stream, g.bytes(200))
		}
	}
	return b.Bytes()
}

func (g *garbage) settings() (all []http2.Setting) {
	for range g.IntN(4) {
		all = append(all, http2.Setting{ID: http2.SettingID(1 + g.IntN(7)), Val: []uint32{0, 1, 65535, 1 << 31, g.Uint32()}[g.IntN(5)]})
	}
	return all
}

// headers returns the headers of a request. Any of them may be missing.
func (g *garbage) headers() []byte {
	var b bytes.Buffer
	e := hpack.NewEncoder(&b)
	for _, h := range []hpack.HeaderField{
		{Name: ":method", Value: "POST"},
		{Name: ":scheme", Value: "http"},
		{Name: ":path", Value: g.methods[g.IntN(len(g.methods))].name},
		{Name: ":authority", Value: "localhost"},
		{Name: "content-type", Value: "application/grpc"},
		{Name: "te", Value: "trailers"},
		{Name: "grpc-timeout", Value: []string{"1S", "0n", "99999999H", "x"}[g.IntN(4)]},
		{Name: "grpc-encoding", Value: []string{"identity", "gzip", "x"}[g.IntN(3)]},
		{Name: "authorization", Value: string(g.bytes(30))},
		{Name: "x-bin", Value: string(g.bytes(30))},
		{Name: "X-Upper", Value: "1"},
	} {
		if g.IntN(12) != 0 {
			_ = e.WriteField(h)
		}
	}
	if g.IntN(10) == 0 {
		return append(b.Bytes(), g.bytes(50)...)
	}
	return b.Bytes()
}

// message returns a possible gRPC message: flags, a length, and bytes.
func (g *garbage) message() []byte {
	m := &maker{Rand: g.Rand}
	body := mustMarshal(m.message(g.methods[g.IntN(len(g.methods))].request))
	if g.IntN(3) == 0 {
		body = g.spoilt(body)
	}
	n := len(body)
	if g.IntN(6) == 0 {
		n = int(g.Uint32())
	}
	flags := byte(0)
	if g.IntN(6) == 0 {
		flags = byte(g.Uint32())
	}
	return append([]byte{flags, byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)}, body...)
}
