package rpc

import (
	"context"
	"log/slog"

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
	Stopping      context.Context // ends the streams of all methods but entrances, which would last for as long as clients like; the registry ends those of entrances
}
