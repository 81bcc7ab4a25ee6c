package rpc

import (
	"context"
	"log/slog"
	"runtime/debug"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/quota"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/auth"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/logging"
	"github.com/grpc-ecosystem/go-grpc-middleware/v2/interceptors/recovery"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
)

// Interceptors have what the interceptors of all methods share.
type Interceptors struct {
	Log           *slog.Logger
	Authenticator *access.Authenticator // nil: nobody is asked for credentials
	Rights        *Rights
	Limits        *quota.Limiter
	Audit         *audit.Log // nil: there is none
	Denials       *Denials
	Slow          *SlowLog
}

// Registrar returns what registers services with a gRPC server behind the interceptors.
// streams ends the streams of all services but Watch when the server stops.
func (i *Interceptors) Registrar(to *grpc.Server, observers Observers, streams grpc.StreamServerInterceptor) Registrar {
	finished := []logging.Option{
		logging.WithLogOnEvents(logging.FinishCall),
		logging.WithLevels(LogLevel),
	}
	others := append([]grpc.StreamServerInterceptor{
		either(
			logging.UnaryServerInterceptor(logger(i.Log), finished...),
			logging.StreamServerInterceptor(logger(i.Log), finished...),
		),
		i.beginCall,
		i.toStatus,
		recovery.StreamServerInterceptor(recovery.WithRecoveryHandlerContext(func(ctx context.Context, p any) error {
			return i.Recovered(ctx, p, debug.Stack())
		})),
		auth.StreamServerInterceptor(i.authenticate),
		recheck,
		streams,
	}, i.limitRequests, i.limitRate)
	return Registrar{to, observers.interceptors(), others, i.answered}
}

// Admission returns the interceptors that decide whether a request is let in.
func (i *Interceptors) Admission() []grpc.StreamServerInterceptor {
	return []grpc.StreamServerInterceptor{auth.StreamServerInterceptor(i.authenticate), i.limitRequests, i.limitRate}
}

// Recovered logs what a handler has panicked with, and returns what its client is told.
func (i *Interceptors) Recovered(ctx context.Context, p any, stack []byte) error {
	i.Log.ErrorContext(ctx, "a handler panicked", "method", Method(ctx), "panic", p, "stack", string(stack))
	return apierr.ErrPanic
}

// logger writes what the interceptors say with slog.
func logger(log *slog.Logger) logging.Logger {
	return logging.LoggerFunc(func(ctx context.Context, level logging.Level, message string, fields ...any) {
		log.Log(ctx, slog.Level(level), message, fields...)
	})
}

// LogLevel says how loudly a finished request is logged: what is normal at
// debugging level, what the server is to blame for as an error. A store that is
// away and a server that stops are logged where that happens, not once for each
// of the ten thousand requests that notice; and what is used up from time to time.
func LogLevel(code codes.Code) logging.Level {
	switch code {
	case codes.Internal, codes.Unknown, codes.DataLoss:
		return logging.LevelError
	}
	return logging.LevelDebug
}
