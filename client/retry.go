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

// retry is a grpc.UnaryClientInterceptor that sends a request again where that does no harm: reads while servers
// are unavailable or overloaded, and once every request whose token or certificate was refused and may be a newer
// one by now. gRPC has retries, too, but when the deadline ends them, its error does not say why the attempts failed.
func (c *Client) retry(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	attempts, renewals := 1, 0
	switch method {
	case fanoutv1.FanoutService_Get_FullMethodName, fanoutv1.FanoutService_List_FullMethodName, fanoutv1.FanoutService_History_FullMethodName:
		attempts = maxAttempts
	}
	if c.renewable {
		renewals = 1
	}
	var failure error // of the last attempt that the deadline did not end
	for next := firstPause; ; {
		var trailer metadata.MD
		err := invoke(ctx, method, req, reply, conn, append(opts[:len(opts):len(opts)], grpc.Trailer(&trailer))...)
		if ctx.Err() != nil {
			return deadlineError(err, failure)
		}
		if status.Code(err) == codes.Unauthenticated && renewals > 0 {
			renewals--
			failure = err
			continue
		}
		pause, again := pauseAfter(err, trailer, next*4/5+jitter(next*2/5))
		if attempts--; !again || attempts == 0 {
			return err
		}
		next, failure = min(3*next, mostPause), err
		if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= pause {
			return deadlineError(status.FromContextError(context.DeadlineExceeded).Err(), failure)
		}
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

// pauseAfter returns the pause after a failed attempt, at least that which the server asks for, and
// whether another attempt may succeed.
func pauseAfter(err error, trailer metadata.MD, pause time.Duration) (_ time.Duration, again bool) {
	if err == nil {
		return 0, false
	}
	e := errorOfStatus(status.Convert(err))
	pushback := trailer.Get("grpc-retry-pushback-ms")
	switch {
	case e.Code == codes.Unavailable && e.Reason != ErrRevisionNotReached: // for the revision, the server has waited
	case e.Code == codes.ResourceExhausted && (e.RetryAfter > 0 || len(pushback) > 0):
	default:
		return 0, false
	}
	pause = max(pause, e.RetryAfter)
	if len(pushback) == 0 {
		return pause, true
	}
	ms, err := strconv.ParseInt(pushback[0], 10, 32)
	if len(pushback) > 1 || err != nil || ms < 0 {
		return 0, false
	}
	return max(pause, time.Duration(ms)*time.Millisecond), true
}

// limit is a grpc.UnaryClientInterceptor that limits requests without a deadline.
func (c *Client) limit(ctx context.Context, method string, req, reply any, conn *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, cancel := c.withRequestTimeout(ctx)
	defer cancel()
	return invoke(ctx, method, req, reply, conn, opts...)
}

// withRequestTimeout adds the default deadline to a context that has none.
func (c *Client) withRequestTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok || c.requestTimeout <= 0 {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, c.requestTimeout)
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
