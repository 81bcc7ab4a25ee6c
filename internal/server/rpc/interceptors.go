package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Interceptors has the state that the interceptors of all methods share. All fields but
// Authenticator and Audit are required.
type Interceptors struct {
	Log           *slog.Logger
	Authenticator *access.Authenticator // nil: all callers are anonymous
	Rights        *Rights
	Limits        *quota.Limiter
	Audit         *audit.Log // nil: there is none
	Denials       *Denials
	Slow          *SlowLog
}

// Registrar returns a registrar that puts the services of a gRPC server behind the
// interceptors. streams is one more interceptor: it ends the streams of all methods but
// Watch when the server stops.
func (i *Interceptors) Registrar(to *grpc.Server, observers Observers, streams grpc.StreamServerInterceptor) Registrar {
	finished := []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(LogLevel),
	}
	others := []grpc.StreamServerInterceptor{
		either(
			logging.UnaryServerInterceptor(logger(i.Log), finished...),
			logging.StreamServerInterceptor(logger(i.Log), finished...),
		),
		i.beginCall,
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
			return i.Recovered(ctx, p, debug.Stack())
		})),
		auth.StreamServerInterceptor(i.authenticate),
		streams,
		i.limitRequests,
		i.limitRate,
	}
	return Registrar{to, observers.interceptors(), others, i.answered}
}

// Admission returns the interceptors that decide whether a request is admitted.
func (i *Interceptors) Admission() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{auth.StreamServerInterceptor(i.authenticate), i.limitRequests, i.limitRate}
}

// Recovered logs the panic of a handler, and returns the error for the client.
func (i *Interceptors) Recovered(ctx context.Context, p any, stack []byte) error {
	i.Log.ErrorContext(ctx, "a handler panicked", "method", Method(ctx), "panic", p, "stack", string(stack))
	return apierr.ErrPanic
}

// logger passes the lines of the logging interceptor to slog.
func logger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		log.Log(ctx, slog.Level(level), message, fields...)
	})
}

// LogLevel returns the level at which the end of a request is logged. Faults of the server
// are errors; all others are debug lines. An unreachable store, a stopping server and used up
// limits are logged once where they happen, not for each of ten thousand requests.
func LogLevel(code codes.Code) logging.Level {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return logging.LevelError
	}
	return logging.LevelDebug
}
