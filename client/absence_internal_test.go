package client

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Notices come after a second, ten seconds and so on, while requests wait for a server. An answer,
// or a connection to a slow server, resets the delay.
func TestWaitingNotices(t *testing.T) {
	away := status.Error(codes.Unavailable, "away")
	for name, c := range map[string]struct {
		attempts  []error       // of each request, one after the other
		lasts     time.Duration // an attempt
		connected bool
		requests  int
		want      []string
	}{
		"no answer":        {[]error{nil}, 25 * time.Second, false, 1, []string{"1s waits", "10s waits"}},
		"slow":             {[]error{nil}, 25 * time.Second, true, 1, nil},
		"failed attempts":  {[]error{away, away, away}, 4 * time.Second, false, 1, []string{"1s waits", "10s away"}},
		"failed requests":  {[]error{away}, 100 * time.Millisecond, false, 20, []string{"1s away"}},
		"failures between": {[]error{away, nil}, 400 * time.Millisecond, false, 20, nil},
		"answers":          {[]error{nil}, 600 * time.Millisecond, false, 20, nil},
		"refusals":         {[]error{status.Error(codes.NotFound, "")}, 600 * time.Millisecond, false, 20, nil},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begin := time.Now()
				var got []string
				a := &absence{after: time.Second, connected: func() bool { return c.connected }, notice: func(failure error) {
					text := "waits"
					if e, ok := failure.(*Error); ok {
						text = e.Message
					}
					got = append(got, time.Since(begin).Truncate(time.Second).String()+" "+text)
				}}
				for range c.requests {
					_ = a.request(t.Context(), "", nil, nil, nil, func(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, opts ...grpc.CallOption) error {
						for _, err := range c.attempts {
							_ = a.attempt(ctx, method, req, reply, conn, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
								time.Sleep(c.lasts)
								return err
							})
						}
						return nil
					})
				}
				a.close()
				if !slices.Equal(got, c.want) {
					t.Errorf("got %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A client that is closed reports nothing more, although a request still waits.
func TestNoNoticeAfterClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		notices := 0
		a := &absence{after: time.Second, connected: func() bool { return false }, notice: func(error) { notices++ }}
		timer := time.AfterFunc(5*time.Second, a.close)
		defer timer.Stop()
		_ = a.request(t.Context(), "", nil, nil, nil, func(context.Context, string, any, any, *grpc.ClientConn, ...grpc.CallOption) error {
			time.Sleep(25 * time.Second)
			return nil
		})
		if notices != 1 {
			t.Errorf("got %d notices, want that of the first second", notices)
		}
	})
}
