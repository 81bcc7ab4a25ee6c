package rpc

import (
	"context"
	"errors"
	"log/slog"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/transport"
	"github.com/fanoutd/fanoutd/internal/work"
)

// Finish returns the status for the error of a request. It logs what the status hides from
// the client, as an error if the server is at fault. Nothing else logs the error of a
// request.
func (i *Interceptors) Finish(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	err = i.LogPanic(ctx, err)
	sent := apierr.Status(ctx, err)
	st := status.Convert(sent)
	if st.Code() == codes.ResourceExhausted {
		i.Limits.Refuse(ctx, err)
	}
	level := slog.LevelDebug
	switch {
	case st.Code() == codes.Internal, st.Code() == codes.Unknown:
		level = slog.LevelError
	case st.Message() == err.Error():
		return sent
	}
	i.Log.Log(ctx, level, "request failed", "method", Method(ctx), "error", err)
	return sent
}

// LogPanic logs an error if it is a panic, and returns the error for the client.
func (i *Interceptors) LogPanic(ctx context.Context, err error) error {
	if p, ok := errors.AsType[*work.PanicError](err); ok {
		i.Log.ErrorContext(ctx, "a handler panicked", "method", Method(ctx), "panic", p.Value, "stack", string(p.Stack))
		return apierr.ErrPanic
	}
	return err
}

// Conclude is called when a handler has returned. It returns the status for the client, and writes
// the audit record and the log line. Handlers that use only the interceptor AdmitRequest call it
// themselves.
//
// Faults of the server are logged as errors, all other ends as debug lines. An unreachable store, a
// stopping server and used up limits are logged once where they happen, not for each of ten
// thousand requests.
func (i *Interceptors) Conclude(ctx context.Context, fullMethod string, began time.Time, err error) error {
	result := i.Finish(ctx, err)
	i.Record(ctx, CallOf(ctx), fullMethod, result)
	level := slog.LevelDebug
	switch status.Code(result) {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		level = slog.LevelError
	}
	if i.Log.Enabled(ctx, level) {
		i.logEnd(ctx, level, fullMethod, began, result)
	}
	noteAnswer(ctx)
	return result
}

// logEnd logs that a call has ended.
func (i *Interceptors) logEnd(ctx context.Context, level slog.Level, fullMethod string, began time.Time, err error) {
	address, _ := transport.CallerOf(ctx)
	service, name := path.Split(fullMethod)
	attributes := []any{
		"grpc.service", strings.Trim(service, "/"), "grpc.method", name,
		"grpc.code", status.Code(err).String(), "grpc.time_ms", float64(time.Since(began).Microseconds()) / 1000, "peer.address", address,
	}
	if err != nil {
		attributes = append(attributes, "grpc.error", err)
	}
	i.Log.Log(ctx, level, "finished call", attributes...)
}

// Method returns the full name of the method that is being served.
func Method(ctx context.Context) string {
	name, _ := grpc.Method(ctx)
	return name
}
