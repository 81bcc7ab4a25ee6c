package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"google.golang.org/grpc/codes"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// gateAnswer is an answer of a server to [Wait], or the error that has interrupted it.
type gateAnswer struct {
	server   int // index of WaitOptions.Servers
	response *fanoutv1.WatchAppliedResponse
	err      error
	final    bool // no retry can help
}

// gateFollower asks one server again and again, and passes its answers on.
type gateFollower struct {
	server   int
	admin    fanoutv1.AdminServiceClient
	request  *fanoutv1.WatchAppliedRequest
	answers  chan<- gateAnswer
	backoff  backoff
	answered bool // the server has answered once
}

func newGateFollower(i int, s Server, req *fanoutv1.WatchAppliedRequest, answers chan<- gateAnswer) *gateFollower {
	return &gateFollower{
		server: i, admin: fanoutv1.NewAdminServiceClient(s.Conn()), request: req, answers: answers,
		backoff: backoff{first: 200 * time.Millisecond, most: 5 * time.Second},
	}
}

// run opens one stream after another until ctx ends or an error is final.
func (f *gateFollower) run(ctx context.Context) {
	for {
		began := time.Now()
		answered, err := f.stream(ctx)
		if ctx.Err() != nil {
			return
		}
		a := gateAnswer{server: f.server, err: err, final: f.isFinal(answered, err)}
		if !f.pass(ctx, a) || a.final {
			return
		}
		if answered && time.Since(began) >= steadyAfter {
			f.backoff.reset()
		}
		wait := f.backoff.next()
		if e, ok := errors.AsType[*Error](err); ok {
			wait += min(e.RetryAfter, maxRetryAfter)
		}
		if sleep(ctx, wait) != nil {
			return
		}
	}
}

// pass hands an answer to the gate. It returns false if ctx has ended.
func (f *gateFollower) pass(ctx context.Context, a gateAnswer) bool {
	select {
	case f.answers <- a:
		return true
	case <-ctx.Done():
		return false
	}
}

// firstAnswer is the time that a server has for its first answer. It includes the time to
// connect. Later, a server is silent while nothing changes, and gRPC's keepalive finds out
// whether it is still there.
const firstAnswer = 10 * time.Second

// stream opens one stream and passes its answers on. It returns whether there was one, and why
// the stream ended.
func (f *gateFollower) stream(ctx context.Context) (answered bool, err error) {
	ctx, cancel := context.WithCancelCause(withoutDeadline{ctx})
	defer cancel(nil)
	silence := time.AfterFunc(firstAnswer, func() { cancel(errSilent) })
	defer silence.Stop()
	stream, err := f.admin.WatchApplied(ctx, f.request)
	for err == nil {
		var m *fanoutv1.WatchAppliedResponse
		if m, err = stream.Recv(); err != nil {
			break
		}
		silence.Stop()
		answered, f.answered = true, true
		if !f.pass(ctx, gateAnswer{server: f.server, response: m}) {
			err = context.Cause(ctx)
		}
	}
	switch {
	case errors.Is(context.Cause(ctx), errSilent):
		return answered, fmt.Errorf("%w: no answer for %v", errSilent, firstAnswer)
	case errors.Is(err, io.EOF):
		return answered, errStreamEnded
	}
	return answered, errorOf(err)
}

// isFinal reports whether another stream would end with the same error.
func (f *gateFollower) isFinal(answered bool, err error) bool {
	if errors.Is(err, ErrClosed) {
		return true
	}
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return false
	}
	switch e.Code {
	case codes.Unauthenticated:
		return !answered // otherwise the credentials have expired, and there may be new ones
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unimplemented, codes.FailedPrecondition, codes.OutOfRange:
		// An error without a reason comes from a proxy, or from a server that lacks the method.
		return e.Reason != "" || !f.answered
	}
	return false
}
