package main

import (
	"strings"
	"sync/atomic"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/test/grpcproxy"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// behindProxy starts a server, and a proxy before it that lets a test act before and after each request.
func behindProxy(t *testing.T, around func(method string, forward func() error) error) (proxy, server string) {
	t.Helper()
	server = inprocess.Start(t, inprocess.Config(t)).Address()
	p := grpcproxy.Start(t, grpcproxy.Config{Target: server, Options: []grpc.ServerOption{
		grpc.StreamInterceptor(func(srv any, stream grpc.ServerStream, info *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
			return around(method, func() error { return handle(srv, stream) })
		}),
	}})
	return p.Address, server
}

// A put whose answer is lost is neither awaited nor taken back, and the message says so.
func TestPutOfUnknownOutcomeIsNotTakenBack(t *testing.T) {
	address, server := behindProxy(t, func(method string, forward func() error) error {
		if err := forward(); err != nil || method != "Put" {
			return err
		}
		return status.Error(codes.Unavailable, "the answer is lost")
	})
	out, errs, code := runWithExitCode(t, address, "put", "config", "a", "new", "--wait", "--rollback")
	if out != "" || code != exitUnavailable || !strings.HasSuffix(errs, "; the write may or may not have been applied, and was not rolled back\n") {
		t.Errorf("exit code %d: %q, %s", code, out, errs)
	}
	if out, _, _ := runWithExitCode(t, server, "get", "config", "a"); out != "new" {
		t.Errorf("got %q", out)
	}
}

// What another client writes just before the put is what is restored.
func TestPutRestoresTheObjectThatItReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	var written atomic.Bool
	var server string
	address, direct := behindProxy(t, func(method string, forward func() error) error {
		if method == "Put" && written.CompareAndSwap(false, true) {
			if _, errs, code := runWithExitCode(t, server, "put", "config", "a", "second"); code != exitOK {
				t.Error(errs)
			}
		}
		return forward()
	})
	server = direct
	plainly(t, server, nil, "put", "config", "a", "first")
	_, errs, code := runWithExitCode(t, address, "put", "config", "a", "new", "--wait", "--rollback", "--timeout", "2s")
	if code != exitRolledBack || !strings.Contains(errs, "restored a, at revision ") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if out, _, _ := runWithExitCode(t, server, "get", "config", "a"); out != "second" || !written.Load() {
		t.Errorf("got %q", out)
	}
}
