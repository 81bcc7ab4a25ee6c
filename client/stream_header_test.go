package client_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// lateReads is credentials for a client that reads nothing before a time, as if it had no CPU.
type lateReads struct {
	credentials.TransportCredentials
	until *atomic.Pointer[time.Time]
}

func (c lateReads) ClientHandshake(ctx context.Context, authority string, raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	conn, info, err := c.TransportCredentials.ClientHandshake(ctx, authority, raw)
	return lateConn{conn, c.until}, info, err
}

func (c lateReads) Clone() credentials.TransportCredentials { return c }

type lateConn struct {
	net.Conn
	until *atomic.Pointer[time.Time]
}

func (c lateConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if until := c.until.Load(); until != nil {
		time.Sleep(time.Until(*until))
	}
	return n, err
}

// A client that is late itself does not take its own delay for a server without Subscribe.
func TestALateClientDoesNotMakeSubscribeMissing(t *testing.T) {
	needsSubscribe(t)
	for name, bookmarks := range map[string]time.Duration{"usual": 10 * time.Second, "short limit of silence": 1600 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &scriptedServer{script: func(*fanoutv1.WatchRequest) stream {
					st := stream{messages: []message{reset(), synced(5)}}
					for range 40 {
						st.later = append(st.later, delayed{time.Second, bookmark(5)})
					}
					return st
				}}
				var until atomic.Pointer[time.Time]
				r := connectTo(t, s, client.WithDialOptions(grpc.WithTransportCredentials(lateReads{insecure.NewCredentials(), &until})))
				if _, err := r.Get(t.Context(), "a"); status.Code(err) != codes.Unimplemented { // the connection is ready
					t.Fatal(err)
				}
				late := time.Now().Add(20 * time.Second)
				until.Store(&late)
				all := watchMany(t, r, 20, client.BookmarkInterval(bookmarks))
				time.Sleep(30 * time.Second)
				synctest.Wait()
				if got := all.synced.Load(); got != 20 || s.shared.Load() != 1 || s.watches.Load() != 0 || all.interruptions.Load() > 0 {
					t.Errorf("%d watches are synced after %d calls of Subscribe, %d of Watch and %d interruptions, want 20, 1, 0 and 0",
						got, s.shared.Load(), s.watches.Load(), all.interruptions.Load())
				}
			})
		})
	}
}

// A server that answers nothing may have Subscribe. The watches wait for one Subscribe after the other, instead
// of a Watch for each of them.
func TestAServerWithoutAnyAnswerDoesNotMakeSubscribeMissing(t *testing.T) {
	needsSubscribe(t)
	synctest.Test(t, func(t *testing.T) {
		recovers := time.Now().Add(time.Minute)
		stuck := func() { time.Sleep(time.Until(recovers)) }
		s := &scriptedServer{script: eachWatch, reports: func(*fanoutv1.ReportRequest) error { stuck(); return nil }}
		s.subscribe = func(st subscribeStream) error {
			stuck()
			return s.serveSubscribe(st)
		}
		all := watchMany(t, connectTo(t, s), 20)
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		// Each of the first two has 5 s, and 20 s for the answer to another request.
		if got := all.synced.Load(); got != 20 || s.shared.Load() != 3 || s.watches.Load() != 0 {
			t.Errorf("%d watches are synced after %d calls of Subscribe and %d of Watch, want 20, 3 and 0", got, s.shared.Load(), s.watches.Load())
		}
	})
}
