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

// classify wraps an error of etcd in the sentinel error that callers handle. If ctx is
// done, classify returns the error of ctx.
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
	case errors.Is(err, rpctypes.ErrTooManyRequests),
		errors.Is(err, rpctypes.ErrLeaseNotFound): // etcd was so slow that the lease of a put ended before the put
		meaning = object.ErrUnavailable
	case errors.Is(err, rpctypes.ErrRequestTooLarge):
		meaning = object.ErrTooLarge
	case code == codes.ResourceExhausted:
		// The answer, because requests are small; see classifyWrite.
		meaning = object.ErrAnswerTooLarge
	case code == codes.Unavailable, code == codes.DeadlineExceeded, code == codes.Canceled,
		errors.Is(err, rpctypes.ErrNoLeader), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		// Canceled although ctx is not done: the connection was closed.
		meaning = object.ErrUnavailable
	default:
		return err
	}
	return fmt.Errorf("%w: %w", meaning, err)
}

// classifyWrite is classify for a write. gRPC refuses a request that is far above etcd's own
// limit. If the answer has values, gRPC may instead have refused the answer of a write that was
// applied.
func classifyWrite(ctx context.Context, err error, returnsValues bool) error {
	err = classify(ctx, err)
	if errors.Is(err, object.ErrAnswerTooLarge) && !returnsValues {
		return fmt.Errorf("%w: %v", object.ErrTooLarge, err) //nolint:errorlint // it is not an ErrUnavailable
	}
	return err
}

// codeOf returns the gRPC code of an error. The etcd client wraps some errors in its own
// type.
func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}
