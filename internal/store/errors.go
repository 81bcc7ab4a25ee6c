package store

import (
	"context"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/leader"
)

// classify wraps an error of etcd in the sentinel error that callers handle. If ctx is
// done, classify returns the error of ctx, unless it is known what has become of a write.
func classify(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	// Whether a write of a cluster was applied is known even if the caller's deadline has ended.
	if errors.Is(ctx.Err(), context.Canceled) || ctx.Err() != nil && !isOutcome(err) {
		return ctx.Err()
	}
	var meaning error
	switch code := codeOf(err); {
	case isNotApplied(err):
		meaning = object.ErrNotApplied
	case errors.Is(err, rpctypes.ErrCompacted):
		meaning = object.ErrCompacted
	case errors.Is(err, rpctypes.ErrNoSpace):
		meaning = object.ErrNoSpace
	case errors.Is(err, rpctypes.ErrTooManyRequests),
		errors.Is(err, rpctypes.ErrLeaseNotFound): // etcd was so slow that the lease of a put ended before the put
		meaning = object.ErrUnavailable
	case errors.Is(err, rpctypes.ErrCorrupt), errors.Is(err, rpctypes.ErrGRPCCorrupt):
		meaning = object.ErrCorrupt
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

// isNotApplied reports whether an error means that a write was certainly not applied.
func isNotApplied(err error) bool {
	_, is := errors.AsType[*leader.NotAppliedError](err)
	return is
}

// isOutcome reports whether an error says whether a write was applied.
func isOutcome(err error) bool {
	_, unknown := errors.AsType[*leader.UnknownOutcomeError](err)
	return unknown || isNotApplied(err)
}

// codeOf returns the gRPC code of an error. The etcd client wraps some errors in its own
// type.
func codeOf(err error) codes.Code {
	if e, ok := errors.AsType[rpctypes.EtcdError](err); ok {
		return e.Code()
	}
	return status.Code(err)
}
