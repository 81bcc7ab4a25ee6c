package rpc

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// toStatus turns the errors of handlers into statuses.
func (i *Interceptors) toStatus(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return i.Finish(stream.Context(), handler(srv, Receiving{stream}))
}

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

// Method returns the full name of the method that is being served.
func Method(ctx context.Context) string {
	name, _ := grpc.Method(ctx)
	return name
}
