package frames

import (
	"encoding/binary"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/net/http2"
)

// violator is a stream whose handler may end it when its request violates a rule.
type violator struct {
	fakeStream
	returns bool
	reasons chan error
	cuts    chan time.Time
}

func (v violator) Violated(reason error) bool {
	v.reasons <- reason
	return v.returns
}

func (v violator) CutOff() { v.cuts <- time.Now() }

// The handler of a request that violates a rule ends the stream, and gRPC gets nothing of the request
// before that. If the handler does not return in time, the connection cuts the stream off. It does not
// wait for a handler that does not return now. In each case, the stream ends at most once, and the
// connection goes on.
func TestViolationsEndTheStream(t *testing.T) {
	for name, c := range map[string]struct {
		returns bool
		ends    bool          // the connection need not end the stream
		after   time.Duration // until the connection ends the stream
	}{
		"the handler ends the stream":     {returns: true, ends: true},
		"the handler does not end it":     {returns: true, after: violationPatience},
		"the handler does not return now": {returns: false, ends: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				conn, client := connected(t, nil)
				opened := make(chan uint32, 2)
				reasons, cuts := make(chan error, 2), make(chan time.Time, 2)
				go func() {
					_ = serve(conn, func(id uint32) {
						conn.Open(violator{fakeStream{make(chan struct{}, 1)}, c.returns, reasons, cuts})
						opened <- id
					})
				}()
				headers := func(id uint32) {
					t.Helper()
					if err := client.WriteHeaders(http2.HeadersFrameParam{StreamID: id, EndHeaders: true}); err != nil {
						t.Fatal(err)
					}
					<-opened
				}
				headers(1)
				began := time.Now()
				written := make(chan error, 1)
				go func() {
					large := binary.BigEndian.AppendUint32([]byte{0}, WindowBytes+1)
					err := client.WriteData(1, false, append(make([]byte, prefixBytes), large...))
					for range 2 { // more of the request
						if err == nil {
							err = client.WriteData(1, false, make([]byte, 100))
						}
					}
					written <- err
				}()
				if got := <-reasons; got != errLargeMessage {
					t.Errorf("the handler got %v, want %v", got, errLargeMessage)
				}
				if c.returns {
					synctest.Wait()
					if len(written) > 0 || len(cuts) > 0 {
						t.Error("the connection did not wait for the handler")
					}
				}
				if c.returns && c.ends {
					conn.Ended(1)
				}
				if err := <-written; err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				if got := len(cuts) > 0; got == c.ends {
					t.Errorf("got %v from the connection as the end of the stream, want %v", got, !c.ends)
				}
				if !c.ends {
					if got := (<-cuts).Sub(began); got != c.after {
						t.Errorf("the stream ended after %v, want %v", got, c.after)
					}
				}
				headers(3)
				if len(reasons)+len(cuts) > 0 {
					t.Error("the stream ended again")
				}
			})
		})
	}
}
