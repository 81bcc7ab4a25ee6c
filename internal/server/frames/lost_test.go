package frames

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// fakeStream is a stream that says when it is lost.
type fakeStream struct{ lost chan<- struct{} }

func (s fakeStream) Lost() { s.lost <- struct{}{} }

func (s fakeStream) Violated(error) bool { return false }

func (s fakeStream) CutOff() {}

// The streams of a lost connection end a few at a time: the next ones when these are answered,
// or after some time. gRPC learns of the loss after all of them.
func TestStreamsOfALostConnectionEndAFewAtATime(t *testing.T) {
	for name, answered := range map[string]bool{"answered": true, "handlers are busy": false} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				const streams = 3*lostAtOnce + 1
				inside, outside := net.Pipe()
				conn := NewConn(inside, nil)
				conn.prefaceLeft = 0
				defer conn.Close()
				client := http2.NewFramer(outside, outside)
				lost, opened := make(chan struct{}, streams), make(chan struct{}, streams)
				served := make(chan error, 1)
				go func() {
					served <- serve(conn, func(uint32) {
						conn.Open(fakeStream{lost})
						opened <- struct{}{}
					})
				}()
				for i := range uint32(streams) {
					if err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: 2*i + 1, EndHeaders: true}); err != nil {
						t.Fatal(err)
					}
					<-opened
				}
				conn.Answered() // before the loss: does not count
				if err := outside.Close(); err != nil {
					t.Fatal(err)
				}
				for ended := 0; ended < streams; {
					synctest.Wait() // only waits for answers are left
					n := len(lost)
					if want := min(lostAtOnce, streams-ended); n != want {
						t.Fatalf("after %d streams: got %d that end at once, want %d", ended, n, want)
					}
					for range n {
						<-lost
						ended++
					}
					if len(served) > 0 {
						t.Fatal("gRPC learned of the loss before the last streams were answered")
					}
					if !answered {
						time.Sleep(lostPatience)
						continue
					}
					for range n {
						conn.Answered()
					}
				}
				if err := <-served; err != io.EOF {
					t.Errorf("got %v from the connection, want %v", err, io.EOF)
				}
			})
		})
	}
}
