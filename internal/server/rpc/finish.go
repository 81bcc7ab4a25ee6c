package rpc

import (
	"context"
	"log/slog"
	"path"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/transport"
)

// Finish returns the status for the error of a request. It logs what the status hides from
// the client, as an error if the server is at fault. Nothing else logs the error of a
// request.
func (i *Interceptors) Finish(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
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

// Conclude does for a handler what the interceptors do at the end of a request, if the handler
// has used only those of Admission. It returns the status for the client, and writes the audit
// record and the log line.
func (i *Interceptors) Conclude(ctx context.Context, fullMethod string, began time.Time, err error) error {
	result := i.Finish(ctx, err)
	i.Record(ctx, CallOf(ctx), fullMethod, result)
	code := status.Code(result)
	address, _ := transport.CallerOf(ctx)
	service, name := path.Split(fullMethod)
	i.Log.Log(ctx, slog.Level(LogLevel(code)), "finished call",
		"grpc.service", strings.Trim(service, "/"), "grpc.method", name,
		"grpc.code", code.String(), "grpc.time_ms", time.Since(began).Milliseconds(), "peer.address", address)
	NoteAnswer(ctx)
	return result
}

// Method returns the full name of the method that is being served.
func Method(ctx context.Context) string {
	name, _ := grpc.Method(ctx)
	return name
}
