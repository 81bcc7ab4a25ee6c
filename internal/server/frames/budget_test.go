package frames

import (
	"bytes"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// fakeBudget has turns that take so long, and allows so many abandoned streams.
type fakeBudget struct {
	wait  time.Duration
	allow int

	mu        sync.Mutex
	turns     int      // guarded by mu
	abandoned []string // guarded by mu: the names of the clients
}

var errBudget = errors.New("the budget is used up")

func (f *fakeBudget) AwaitTurn(closed <-chan struct{}) time.Duration {
	f.mu.Lock()
	f.turns++
	f.mu.Unlock()
	Pause(f.wait, closed)
	return f.wait
}

func (f *fakeBudget) turnsSoFar() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.turns
}

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
func connected(t *testing.T, budget Budget) (*Conn, *http2.Framer) {
	t.Helper()
	inside, outside := net.Pipe()
	conn := NewConn(inside, budget)
	conn.prefaceLeft = 0
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
		conn, client := connected(t, budget)
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
// answered. If the server resets a stream, that counts only where the client has provoked it.
func TestOnlyYoungUnansweredStreamsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &fakeBudget{allow: 1000}
		conn, client := connected(t, budget)
		requests := make(chan *Request)
		go func() {
			_ = serve(conn, func(uint32) {
				request, _, _ := conn.Open(fakeStream{make(chan struct{}, 1)})
				requests <- request
			})
		}()
		go func() {
			for {
				if _, err := client.ReadFrame(); err != nil {
					return
				}
			}
		}()
		nextStream := uint32(1)
		open := func(name string) (id uint32) {
			t.Helper()
			id = nextStream
			nextStream += 2
			if err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
			if request := <-requests; name != "" {
				request.SetClient(name)
			}
			return id
		}
		reset := func(id uint32) {
			t.Helper()
			if err := client.WriteRSTStream(id, http2.ErrCodeCancel); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		server := http2.NewFramer(conn, nil)
		written := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		for range 10 {
			withHeaders, withData := open("ann"), open("ann")
			written(server.WriteHeaders(http2.HeadersFrameParam{StreamID: withHeaders, EndStream: true, EndHeaders: true}))
			written(server.WriteData(withData, true, nil))
			reset(withHeaders)
			reset(withData)
		}
		var old []uint32
		for range 10 {
			old = append(old, open("ann"))
		}
		time.Sleep(youngFor)
		for _, id := range old {
			reset(id)
		}
		for _, code := range []http2.ErrCode{http2.ErrCodeNo, http2.ErrCodeInternal, http2.ErrCodeRefusedStream} {
			id := open("ann")
			written(server.WriteRSTStream(id, code))
			reset(id)
		}
		if got := budget.clients(); len(got) != 0 {
			t.Errorf("got %d abandoned streams, want none", len(got))
		}
		reset(open("ann"))
		reset(open(""))
		for _, code := range []http2.ErrCode{http2.ErrCodeProtocol, http2.ErrCodeCancel} {
			id := open("bob")
			written(server.WriteRSTStream(id, code))
			reset(id) // counts once
		}
		if got, want := budget.clients(), []string{"ann", "", "bob", "bob"}; !slices.Equal(got, want) {
			t.Errorf("got abandoned streams of %q, want %q", got, want)
		}
		late := open("ann")
		if err := conn.Close(); err != nil {
			t.Fatal(err)
		}
		if server.WriteRSTStream(late, http2.ErrCodeCancel) == nil {
			t.Error("got no error from a write after the end of the connection")
		}
		if got := budget.clients(); len(got) != 4 {
			t.Errorf("got %d abandoned streams after the end of the connection, want 4", len(got))
		}
	})
}

// A connection keeps nothing of streams that the server ignores, as it does after a GOAWAY.
func TestIgnoredStreamsAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, client := connected(t, &fakeBudget{})
		go func() { _ = serve(conn, func(uint32) {}) }()
		for id := uint32(1); id < 10_000; id += 2 {
			if err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}); err != nil {
				t.Fatal(err)
			}
			time.Sleep(youngFor / 10)
		}
		synctest.Wait()
		conn.mu.Lock()
		defer conn.mu.Unlock()
		if n := len(conn.streams); n > fewStreams {
			t.Errorf("the connection keeps %d streams, want at most %d", n, fewStreams)
		}
	})
}

// A stream begins when the server reads it, however long it has waited for its turn.
func TestDelayedStreamsAreYoung(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &fakeBudget{wait: time.Minute, allow: 1000}
		conn, client := connected(t, budget)
		go func() { _ = serve(conn, func(uint32) {}) }()
		for id := uint32(1); id < 20; id += 2 {
			err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true})
			if err := errors.Join(err, client.WriteRSTStream(id, http2.ErrCodeCancel)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if got := budget.clients(); len(got) != 10 {
			t.Errorf("got %d abandoned streams, want 10", len(got))
		}
	})
}

// Streams begin in bursts, each in a turn. Closing the connection ends the wait for a turn.
func TestStreamsBeginInBursts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, client := connected(t, &fakeBudget{wait: time.Second})
		began, opened := time.Now(), 0
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = serve(conn, func(uint32) {
				opened++
				if _, _, waited := conn.Open(fakeStream{make(chan struct{}, 1)}); (waited != 0) != (opened%burstSize == 1) {
					t.Errorf("stream %d: got a wait of %v, want one for the first stream of each burst", opened, waited)
				}
			})
		}()
		go func() {
			for id := uint32(1); client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}) == nil; id += 2 {
			}
		}()
		time.Sleep(10*time.Second + time.Second/2)
		synctest.Wait()
		if opened != 10*burstSize {
			t.Errorf("got %d streams after 10 turns, want %d", opened, 10*burstSize)
		}
		_ = conn.Close()
		<-served
		if took := time.Since(began); took > 11*time.Second {
			t.Errorf("the connection ended after %v", took)
		}
	})
}

// A client cannot save up a burst.
func TestBurstsEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &fakeBudget{}
		conn, client := connected(t, budget)
		go func() { _ = serve(conn, func(uint32) {}) }()
		id := uint32(1)
		open := func(count int) (turns int) {
			t.Helper()
			before := budget.turnsSoFar()
			for range count {
				if err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}); err != nil {
					t.Fatal(err)
				}
				id += 2
			}
			synctest.Wait()
			return budget.turnsSoFar() - before
		}
		for _, c := range []struct {
			pause       time.Duration
			count, want int
		}{
			{0, 1, 1},
			{burstTime, burstSize - 1, 0},
			{0, 2 * burstSize, 2},
			{0, 1, 1},
			{burstTime + 1, 1, 1},
			{burstTime + 1, burstSize, 1},
		} {
			time.Sleep(c.pause)
			if got := open(c.count); got != c.want {
				t.Errorf("%d streams after %v: got %d turns, want %d", c.count, c.pause, got, c.want)
			}
		}
	})
}

// Frames that cost nothing else are read at a bounded rate.
func TestControlFramesAreReadAtABoundedRate(t *testing.T) {
	for name, write := range map[string]func(*http2.Framer) error{
		"WINDOW_UPDATE": func(f *http2.Framer) error { return f.WriteWindowUpdate(0, 1) },
		"HEADERS of an old stream": func(f *http2.Framer) error {
			return f.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, EndHeaders: true})
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			conn, client := connected(t, &fakeBudget{})
			go func() { _ = serve(conn, func(uint32) {}) }()
			began := time.Now()
			const count = 5 * controlFrameRate
			for range count {
				if err := write(client); err != nil {
					t.Fatal(err)
				}
			}
			// The first second's worth is read at once.
			if took := time.Since(began); took < 4*time.Second-time.Second/10 || took > 4*time.Second {
				t.Errorf("%s: %d frames were read in %v, want about 4s", name, count, took)
			}
		})
	}
}

// gRPC looks at all streams of a connection for each change of the initial window. So settings
// are read at a low rate, and a frame may have a few only.
func TestSettingsAreReadAtALowRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		conn, client := connected(t, &fakeBudget{})
		served := make(chan error, 1)
		go func() {
			served <- serve(conn, func(uint32) {})
			_ = conn.Close()
		}()
		const seconds = 10
		began := time.Now()
		for n := range settingsBurst + seconds*settingsRate + 1 { // the last one is accepted before it waits
			if err := client.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(n)}); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(began); took != seconds*time.Second {
			t.Errorf("the settings were read in %v, want %vs", took, seconds)
		}
		go func() {
			settings := make([]http2.Setting, maxSettings+1)
			for i := range settings {
				settings[i] = http2.Setting{ID: http2.SettingInitialWindowSize, Val: uint32(i)}
			}
			_ = client.WriteSettings(settings...) // the server closes the connection
		}()
		frame, err := client.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		if bye, ok := frame.(*http2.GoAwayFrame); !ok || bye.ErrCode != http2.ErrCodeEnhanceYourCalm {
			t.Errorf("got %v, want GOAWAY with ENHANCE_YOUR_CALM", frame)
		}
		if err := <-served; !errors.Is(err, errManySettings) {
			t.Errorf("got %v from the connection, want %v", err, errManySettings)
		}
	})
}

// The last frame waits until the frame that is being written is complete.
func TestTheLastFrameDoesNotInterruptAnother(t *testing.T) {
	inner := &writtenConn{}
	conn := NewConn(inner, nil)
	written := frameBytes(t, data(1, 100))
	write := func(b []byte) {
		t.Helper()
		if _, err := conn.Write(b); err != nil {
			t.Fatal(err)
		}
	}
	write(written[:50])
	done := conn.writeLast([]byte("last"))
	select {
	case <-done:
		t.Error("the last frame was written inside another one")
	default:
	}
	write(written[50:])
	<-done
	if got := inner.Bytes(); string(got) != string(written)+"last" {
		t.Errorf("got %q", got)
	}
}

// The last frame names the last stream that was read. After a GOAWAY of the server, which may
// have named a lower one, it is not written.
func TestTheLastFrameDoesNotFollowAGoAwayOfTheServer(t *testing.T) {
	inner := &writtenConn{}
	conn := NewConn(inner, nil)
	written := frameBytes(t, goAway(7))
	if _, err := conn.Write(written); err != nil {
		t.Fatal(err)
	}
	<-conn.writeLast([]byte("last"))
	if got := inner.Bytes(); !bytes.Equal(got, written) {
		t.Errorf("got %q after %q", got[len(written):], written)
	}
}

// A watch of a stream counts like a stream: when it is started, and when it is stopped young.
func TestWatchesOfAStreamCountLikeStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		budget := &fakeBudget{allow: 1}
		conn, client := connected(t, budget)
		starts := conn.Starts()
		for range 3 * burstSize {
			starts.Await(nil)
		}
		if got := budget.turnsSoFar(); got != 3 {
			t.Errorf("got %d turns for the watches of three bursts, want 3", got)
		}
		conn.AbandonWatch("alice", youngFor) // no longer young
		conn.AbandonWatch("alice", 0)
		if got := budget.clients(); !slices.Equal(got, []string{"alice"}) {
			t.Errorf("got abandoned watches of %v, want one of alice", got)
		}
		conn.AbandonWatch("alice", 0)
		served := make(chan error, 1)
		go func() {
			served <- serve(conn, func(uint32) {})
			_ = conn.Close()
		}()
		go func() { _ = client.WritePing(false, [8]byte{}) }() // the next frame
		if frame, err := client.ReadFrame(); err != nil || frame.Header().Type != http2.FrameGoAway {
			t.Errorf("got %v, %v, want GOAWAY", frame, err)
		}
		if err := <-served; !errors.Is(err, errBudget) {
			t.Errorf("got %v from the connection, want %v", err, errBudget)
		}
	})
	for _, conn := range []*Conn{nil, NewConn(nil, nil)} {
		starts := conn.Starts()
		starts.Await(nil) // without a budget, nothing waits
	}
}
