package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Without a terminal, a wait prints a line when its status changes, and every ten seconds if it does
// not. The line names the watches that have not applied the revision.
func TestWaitPrintsItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs strings.Builder
		p := waitProgress{tool: newTool(nil, nil, nil, &errs), ctx: t.Context(), options: &gateOptions{selection: `key "a"`}, printed: time.Now()}
		show := func(seconds int, s client.WaitStatus) {
			for range seconds {
				time.Sleep(time.Second)
				p.show(&s)
				p.show(&s) // a status that has not changed, at once
			}
		}
		server := []client.WaitServer{{Address: "a:1", Answered: true, Answering: true}}
		late := client.PendingWatch{Instance: "web-1"}
		p.show(&client.WaitStatus{Revision: 7, Watches: 2, Required: 2, Pending: []client.PendingWatch{late}, Servers: server}) // may be over at once
		show(31, client.WaitStatus{Revision: 7, Watches: 2, Required: 2, Pending: []client.PendingWatch{late, {Instance: "web-2"}}, Servers: server})
		show(1, client.WaitStatus{Revision: 7, Watches: 2, Applied: 1, Required: 2, Pending: []client.PendingWatch{late}, Servers: server})
		show(1, client.WaitStatus{Revision: 7, Required: 1, Servers: server})
		show(1, client.WaitStatus{Revision: 7, Watches: 2, Applied: 2, Required: 2, Servers: server, Ended: true})
		const two = "waiting: 0 of 2 watches have applied revision 7, want 2; not applied by web-1, web-2\n"
		want := strings.Repeat(two, 4) + "waiting: 1 of 2 watches have applied revision 7, want 2; not applied by web-1\n" +
			"waiting: 0 of 0 watches have applied revision 7, want 1; no watch that reports concerns key \"a\" (use --min-watches 0 if there need be none)\n"
		if got := errs.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}

// Without --timeout, a wait ends after two minutes. It has printed a line every ten seconds.
func TestWaitEndsWithoutATimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		listener := bufconn.Listen(1 << 20)
		srv := grpc.NewServer()
		fanoutv1.RegisterAdminServiceServer(srv, &gateServer{answer: applied(2, 1, "web-1"), changed: make(chan struct{})})
		served := make(chan error, 1)
		go func() { served <- srv.Serve(listener) }()
		c, err := client.New("passthrough:///gate", client.WithInsecure(), client.WithDialOptions(
			grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) { return listener.DialContext(ctx) }),
		))
		if err != nil {
			t.Fatal(err)
		}
		var errs strings.Builder
		began := time.Now()
		o := gateOptions{WaitOptions: client.WaitOptions{Servers: []client.Server{{Address: "gate", Client: c}}, Resource: "config", Revision: 7}}
		_, err = newTool(nil, nil, nil, &errs).awaitApplied(t.Context(), o)
		if !errors.Is(err, context.DeadlineExceeded) || time.Since(began) != waitTimeout {
			t.Errorf("got %v after %v, want the end after %v", err, time.Since(began), waitTimeout)
		}
		if code := exitCode(t.Context(), waitError(err, &o)); code != exitTimeout {
			t.Errorf("got exit code %d, want %d", code, exitTimeout)
		}
		if n := strings.Count(errs.String(), "waiting: 1 of 2 watches have applied revision 7, want 2; not applied by web-1\n"); n < 11 || n > 13 {
			t.Errorf("got %d lines:\n%s", n, errs.String())
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
		srv.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
}
