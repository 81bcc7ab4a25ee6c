package floor

import (
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/bench/internal/raw"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// reader is a client that counts the messages of each stream by their size.
type reader struct {
	t     *testing.T
	conn  *raw.Conn
	sizes []map[int]int // messages by size, for each stream
	count int           // messages of all streams
}

func newReader(t *testing.T, address string, streams int) *reader {
	t.Helper()
	conn, err := raw.Dial(t.Context(), address, raw.Options{Buffer: 4096})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(poll.Patience)); err != nil {
		t.Fatal(err)
	}
	r := &reader{t: t, conn: conn}
	for range streams {
		r.sizes = append(r.sizes, map[int]int{})
		if err := conn.Open("/any", []byte("request"), true); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.Flush(); err != nil {
		t.Fatal(err)
	}
	return r
}

// readUntil reads until the streams have received count messages in total.
func (r *reader) readUntil(count int) error {
	return r.conn.Read(func(stream int, message []byte, at int64) error {
		if at == 0 {
			r.t.Error("got a message without a time of arrival")
		}
		r.sizes[stream][len(message)]++
		r.count++
		return nil
	}, func() bool { return r.count >= count })
}

// The sizes include messages of several frames, and messages that fill a frame exactly.
func TestEveryStreamGetsEachMessageOnce(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(listener, func() ([]byte, error) { return []byte("first"), nil })
	var running sync.WaitGroup
	running.Go(func() {
		if err := server.Run(); err != nil {
			t.Error(err)
		}
	})
	defer running.Wait()
	defer server.Close()

	var readers []*reader
	for _, streams := range []int{1, 3, 100} {
		r := newReader(t, listener.Addr().String(), streams)
		if err := r.readUntil(streams); err != nil {
			t.Fatal(err)
		}
		readers = append(readers, r)
	}
	const times = 20
	sizes := []int{0, 300, 3 * maxFrameSize, maxFrameSize - 5, maxFrameSize - 4}
	var reading sync.WaitGroup
	for _, r := range readers {
		reading.Go(func() {
			if err := r.readUntil(len(r.sizes) * (1 + times*len(sizes))); err != nil {
				t.Error(err)
			}
		})
	}
	for range times {
		for _, size := range sizes {
			server.Broadcast(make([]byte, size))
		}
	}
	reading.Wait()
	for _, r := range readers {
		for i, got := range r.sizes {
			for _, size := range sizes {
				if got[size] != times {
					t.Errorf("stream %d of %d got %d messages of %d bytes, want %d", i, len(r.sizes), got[size], size, times)
				}
			}
			if got[len("first")] != 1 {
				t.Errorf("stream %d of %d got %d first messages, want 1", i, len(r.sizes), got[len("first")])
			}
		}
	}
}

func TestServerDropsDisconnectedClients(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(listener, func() ([]byte, error) { return []byte("first"), nil })
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run() })
	defer running.Wait()
	defer server.Close()
	leaving, staying := newReader(t, listener.Addr().String(), 1), newReader(t, listener.Addr().String(), 1)
	for _, r := range []*reader{leaving, staying} {
		if err := r.readUntil(1); err != nil {
			t.Fatal(err)
		}
	}
	leaving.conn.Close()
	ctx := poll.Context(t)
	for connections := 2; connections > 1; {
		if ctx.Err() != nil {
			t.Fatalf("got %d connections after one of two clients disconnected, want 1", connections)
		}
		server.Broadcast([]byte("news"))
		connections = 0
		for _, w := range server.workers {
			connections += len(w.all())
		}
	}
	if err := staying.readUntil(2); err != nil {
		t.Fatal(err)
	}
}
