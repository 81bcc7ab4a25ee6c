package rpc

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// oneRequest is a stream that receives one request.
type oneRequest struct {
	grpc.ServerStream
	ctx context.Context
}

func (s oneRequest) Context() context.Context { return s.ctx }

func (s oneRequest) RecvMsg(m any) error {
	switch m := m.(type) {
	case *fanoutv1.WatchRequest:
		m.Resource = "config"
	case *fanoutv1.GetRequest:
		m.Resource, m.Key = "config", "a"
	}
	return nil
}

// The audit record of a call has the identity of the caller, although an inner interceptor
// authenticates the call.
func TestAuditRecordHasTheIdentity(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	log, err := audit.Open(audit.Config{Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := &Interceptors{Log: slog.New(slog.DiscardHandler), Limits: quota.New(quota.Limits{}, slog.New(slog.DiscardHandler)), Audit: log, Denials: NewDenials(), Stopping: t.Context()}
	ann := access.Identity{Name: "ann", Method: access.Token}
	denied := status.Error(codes.PermissionDenied, "no")

	for _, one := range []struct {
		info *grpc.StreamServerInfo
		req  any
	}{
		{&grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Watch_FullMethodName, IsServerStream: true}, &fanoutv1.WatchRequest{}},
		{&grpc.StreamServerInfo{FullMethod: fanoutv1.FanoutService_Get_FullMethodName}, &fanoutv1.GetRequest{}},
	} {
		handle := func(_ any, stream grpc.ServerStream) error {
			if err := stream.RecvMsg(one.req); err != nil {
				return err
			}
			return denied
		}
		authenticate := func(_ any, stream grpc.ServerStream) error {
			return s.AdmitRequest(nil, oneRequest{stream, access.With(stream.Context(), ann)}, one.info, handle)
		}
		ctx := WithStreamContext(t.Context())
		if err := s.serveStream(nil, oneRequest{nil, ctx}, one.info, authenticate); status.Code(err) != codes.PermissionDenied {
			t.Errorf("got %v, want PermissionDenied", err)
		}
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var got []map[string]any
	for l := range bytes.Lines(text) {
		var one map[string]any
		if err := json.Unmarshal(l, &one); err != nil {
			t.Fatal(err)
		}
		delete(one, "time")
		delete(one, "level")
		got = append(got, one)
	}
	want := []map[string]any{
		{"msg": "denied", "method": "fanout.v1.FanoutService/Watch", "identity": "ann", "authentication": "token", "resource": "config", "code": "PermissionDenied"},
		{
			"msg": "denied", "method": "fanout.v1.FanoutService/Get", "identity": "ann", "authentication": "token", "resource": "config",
			"keys": []any{"a"}, "code": "PermissionDenied",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records, -want +got:\n%s", diff)
	}
}

// A stream ends with DRAINING when the server stops, but bad credentials are refused as such.
func TestBadCredentialsAreRefusedWhileTheServerStops(t *testing.T) {
	stopping, stop := context.WithCancel(t.Context())
	stop()
	s := &Interceptors{Log: slog.New(slog.DiscardHandler), Limits: quota.New(quota.Limits{}, slog.New(slog.DiscardHandler)), Denials: NewDenials(), Stopping: stopping}
	for _, one := range []struct {
		of   func(ctx context.Context) error
		want codes.Code
	}{
		{func(ctx context.Context) error { return ctx.Err() }, codes.Unavailable},
		{func(context.Context) error { return access.ErrExpired }, codes.Unauthenticated},
	} {
		err := s.serveStream(nil, oneRequest{ctx: t.Context()}, &grpc.StreamServerInfo{FullMethod: "/fanout.v1.AdminService/WatchApplied", IsServerStream: true},
			func(_ any, stream grpc.ServerStream) error {
				<-stream.Context().Done()
				return one.of(stream.Context())
			})
		if status.Code(err) != one.want {
			t.Errorf("got %v, want %v", err, one.want)
		}
	}
}
