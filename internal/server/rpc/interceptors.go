package rpc

import (
	"log/slog"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// Interceptors has the state that the interceptors of all methods share. All fields but
// Authenticator and Audit are required.
type Interceptors struct {
	Log           *slog.Logger
	Authenticator *access.Authenticator // nil: all callers are anonymous
	Rights        *Rights
	Limits        *quota.Limiter
	Audit         *audit.Log           // nil: there is none
	Denials       quota.ClientLimiters // see NewDenials
	Slow          *SlowLog
}

// Registrar returns a registrar that puts the services of a gRPC server behind the
// interceptors. streams is one more interceptor: it ends the streams of all methods but
// Watch when the server stops.
func (i *Interceptors) Registrar(to *grpc.Server, observers Observers, streams grpc.StreamServerInterceptor) Registrar {
	return Registrar{to, observers.interceptors(), []grpc.StreamServerInterceptor{i.serveCall, streams, i.Admit}, i.answered}
}
