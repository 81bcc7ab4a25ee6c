package frames

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// fakeBudget delays each stream, and allows so many abandoned ones.
type fakeBudget struct {
	wait  time.Duration
	allow int

	mu        sync.Mutex
	abandoned []string // guarded by mu: the names of the clients
}

var errBudget = errors.New("the budget is used up")

func (f *fakeBudget) OpenStream() time.Duration { return f.wait }

func (f *fakeBudget) AbandonStream(client string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.abandoned = append(f.abandoned, client); len(f.abandoned) > f.allow {
		return errBudget
	}
	return nil
}

func (f *fakeBudget) clients() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.abandoned
}

// connected returns a connection with a budget and the client of the connection. Both are
// closed with the test. The preface has been read.
func connected(t *testing.T, o Options) (*Conn, *http2.Framer) {
	t.Helper()
	inside, outside := net.Pipe()
	o.PrefaceRead = true
	conn := NewConn(inside, o)
	t.Cleanup(func() {
		_ = conn.Close()
		_ = outside.Close()
	})
	return conn, http2.NewFramer(outside, outside)
}

// serve reads all frames, as gRPC and net/http do. It calls headers for each new stream, and
// returns the error of the connection.
func serve(conn *Conn, headers func(id uint32)) error {
	framer := http2.NewFramer(io.Discard, conn)
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			return err
		}
		if h, ok := frame.(*http2.HeadersFrame); ok {
			headers(h.StreamID)
		}
	}
}

// A client that resets its streams at once gets ENHANCE_YOUR_CALM when its budget is used up,
// with the last stream that the server has read, and the connection ends.
func TestResetsOverTheBudgetCloseTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &fakeBudget{allow: 5}
		conn, client := connected(t, Options{Budget: budget})
		go func() {
			for id := uint32(1); ; id += 2 {
				if client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}) != nil || client.WriteRSTStream(id, http2.ErrCodeCancel) != nil {
					return
				}
			}
		}()
		served, last := make(chan error, 1), http2.Frame(nil)
		go func() {
			framer := http2.NewFramer(io.Discard, conn)
			for {
				frame, err := framer.ReadFrame()
				if err != nil {
					served <- err
					break
				}
				last = frame
			}
			_ = conn.Close()
		}()
		frame, err := client.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		bye, ok := frame.(*http2.GoAwayFrame)
		if !ok || bye.ErrCode != http2.ErrCodeEnhanceYourCalm || bye.LastStreamID != 11 || string(bye.DebugData()) != errBudget.Error() {
			t.Errorf("got %v", frame)
		}
		if err := <-served; !errors.Is(err, errBudget) {
			t.Errorf("got %v from the connection, want %v", err, errBudget)
		}
		// Otherwise the server would work for a request that nobody waits for.
		if reset, ok := last.(*http2.RSTStreamFrame); !ok || reset.StreamID != 11 {
			t.Errorf("the server got %v last, want the reset of the last stream", last)
		}
	})
}

// A client may end any number of streams that are not young, and those that the server has
// answered.
func TestOnlyYoungUnansweredStreamsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &fakeBudget{allow: 1000}
		conn, client := connected(t, Options{Budget: budget, FollowRequests: true})
		ends := make(chan func(bool, string), 100)
		go func() {
			_ = serve(conn, func(uint32) {
				_, id := conn.Open(fakeStream{}, func() {})
				ends <- func(abandoned bool, client string) { conn.Ended(id, abandoned, client) }
			})
		}()
		nextStream := uint32(1)
		open := func(n int) (all []func(bool, string)) {
			t.Helper()
			for range n {
				id := nextStream
				nextStream += 2
				if err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}); err != nil {
					t.Fatal(err)
				}
				all = append(all, <-ends)
			}
			return all
		}
		for _, end := range open(10) {
			end(false, "ann") // answered
		}
		old := open(10)
		time.Sleep(2 * abandonedWithin)
		for _, end := range old {
			end(true, "ann")
		}
		if got := budget.clients(); len(got) != 0 {
			t.Errorf("got %d abandoned streams, want none", len(got))
		}
		open(1)[0](true, "ann")
		open(1)[0](true, "")
		if got := budget.clients(); len(got) != 2 || got[0] != "ann" || got[1] != "" {
			t.Errorf("got abandoned streams of %q, want one of ann and one without a name", got)
		}
		late := open(1)[0]
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		late(true, "ann")
		if got := budget.clients(); len(got) != 2 {
			t.Errorf("got %d abandoned streams after the end of the connection, want 2", len(got))
		}
	})
}

// Streams over the rate are read later, and closing the connection ends the wait.
func TestStreamsOverTheRateAreReadLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, client := connected(t, Options{Budget: &fakeBudget{wait: time.Second}})
		began, opened := time.Now(), 0
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = serve(conn, func(uint32) { opened++ })
		}()
		go func() {
			for id := uint32(1); client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}) == nil; id += 2 {
			}
		}()
		time.Sleep(10*time.Second + time.Second/2)
		synctest.Wait()
		if opened != 10 {
			t.Errorf("got %d streams after %v, want 10", opened, time.Since(began))
		}
		_ = conn.Close()
		<-served
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// Frames that cost nothing else are read at a bounded rate.
func TestControlFramesAreReadAtABoundedRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, client := connected(t, Options{Budget: &fakeBudget{}})
		go func() { _ = serve(conn, func(uint32) {}) }()
		began := time.Now()
		const count = 5 * controlFrameRate
		for range count {
			if err := client.WriteWindowUpdate(0, 1); err != nil {
				t.Fatal(err)
			}
		}
		// The first second's worth is read at once.
		if took := time.Since(began); took < 4*time.Second-time.Second/10 || took > 4*time.Second {
			t.Errorf("%d frames were read in %v, want about 4s", count, took)
		}
	})
}

// The last frame waits until the frame that is being written is complete.
func TestTheLastFrameDoesNotInterruptAnother(t *testing.T) {
	inner := &writtenConn{}
	conn := NewConn(inner, Options{})
	written := frameBytes(t, data(1, 100))
	write := func(b []byte) {
		t.Helper()
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	write(written[:50])
	said := conn.writeLast([]byte("last"))
	select {
	case <-said:
		t.Error("the last frame was written inside another one")
	default:
	}
	write(written[50:])
	<-said
	if got := inner.Bytes(); string(got) != string(written)+"last" {
		t.Errorf("got %q", got)
	}
}
