package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
)

// errClientClosed is what closing the client of an in-process etcd returns: it
// has no connection, only a context.
var errClientClosed = context.Canceled

// classify gives an error of etcd the meaning that callers decide on, and keeps
// the error itself for the log. A caller who gave up gets his own error back.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	var meaning error
	switch code := codeOf(err); {
	case errors.Is(err, rpctypes.ErrCompacted):
		meaning = object.ErrCompacted
	case errors.Is(err, rpctypes.ErrNoSpace):
		meaning = object.ErrNoSpace
	case errors.Is(err, rpctypes.ErrTooManyRequests):
		meaning = object.ErrUnavailable
	case errors.Is(err, rpctypes.ErrRequestTooLarge), code == codes.ResourceExhausted:
		// Far beyond etcd's own limit, gRPC refuses first, on one side or the other.
		meaning = object.ErrTooLarge
	case code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Canceled,
		errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// Canceled although the caller has not given up: the connection went away.
		meaning = object.ErrUnavailable
	default:
		return err
	}
	return fmt.Errorf("%w: %w", meaning, err)
}

// codeOf returns the gRPC code of an error, which etcd's client wraps in a type
// of its own.
func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}
