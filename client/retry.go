package client

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Reads are sent up to four times. The pauses in between grow from firstPause to mostPause.
const (
	maxAttempts = 4
	firstPause  = 200 * time.Millisecond
	mostPause   = 2 * time.Second
)

// retryReads is a grpc.UnaryClientInterceptor that sends reads again while servers are
// unavailable or overloaded, which does no harm. gRPC has retries, too, but when the
// deadline ends them, its error does not say why the attempts failed.
func (c *Client) retryReads(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if method != fanoutv1.FanoutService_Get_FullMethodName && method != fanoutv1.FanoutService_List_FullMethodName {
		return invoke(ctx, method, req, reply, conn, opts...)
	}
	var failure error // of the last attempt that the deadline did not end
	next := firstPause
	for attempt := 1; ; attempt++ {
		var trailer metadata.MD
		err := invoke(ctx, method, req, reply, conn, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
		if ctx.Err() != nil {
			return deadlineError(err, failure)
		}
		if code := status.Code(err); code != codes.Unavailable && code != codes.ResourceExhausted || attempt == maxAttempts {
			return err
		}
		pause, again := pushback(trailer, next*4/5+jitter(next*2/5))
		if !again {
			return err
		}
		next, failure = min(3*next, mostPause), err
		timer := time.NewTimer(pause)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return deadlineError(status.FromContextError(ctx.Err()).Err(), failure)
		case <-c.open.Done():
			timer.Stop()
			return ErrClosed
		}
	}
}

// pushback returns the pause before the next attempt, which the server may set, and whether
// the server allows one.
func pushback(trailer metadata.MD, byDefault time.Duration) (pause time.Duration, again bool) {
	values := trailer.Get("grpc-retry-pushback-ms")
	if len(values) == 0 {
		return byDefault, true
	}
	ms, err := strconv.ParseInt(values[0], 10, 32)
	if len(values) > 1 || err != nil || ms < 0 {
		return 0, false
	}
	return time.Duration(ms) * time.Millisecond, true
}

// deadlineError adds the failure of the last attempt, if there is one, to the error of a call
// whose time was up.
func deadlineError(err, failure error) error {
	if err == nil || failure == nil {
		return err
	}
	st := status.Convert(err)
	return status.Error(st.Code(), fmt.Sprintf("%s; the last attempt failed: %s", st.Message(), status.Convert(failure).Message()))
}
