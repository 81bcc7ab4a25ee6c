package server

import (
	"context"
	"log/slog"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// toStatus turns what the handlers return into statuses.
func (s *Server) toStatus(srv any, stream grpc.ServerStream, _ *grpc.StreamServerInfo, handler grpc.StreamHandler) error {
	return s.edge(stream.Context(), handler(srv, receiving{stream}))
}

// edge is where an error leaves the program. What the client is not told about it
// is logged here, and only here: loudly where the server is to blame.
func (s *Server) edge(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	told := apierr.Status(ctx, err)
	st := status.Convert(told)
	if st.Code() == codes.ResourceExhausted {
		s.limits.Refuse(ctx, err)
	}
	level := slog.LevelDebug
	switch {
	case st.Code() == codes.Internal, st.Code() == codes.Unknown:
		level = slog.LevelError
	case st.Message() == err.Error():
		return told
	}
	s.log.Log(ctx, level, "request failed", "method", method(ctx), "error", err)
	return told
}

// method returns the full name of the method that is being served, for the log.
func method(ctx context.Context) string {
	name, _ := grpc.Method(ctx)
	return name
}
