package client_test

import (
	"context"
	"testing"

	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/client"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// onlyWatcher waits until one watch is at the server, and is not the one with the given id.
func onlyWatcher(t *testing.T, admin fanoutv1.AdminServiceClient, other string) (id string) {
	t.Helper()
	poll.Until(t, "the watch is at the server", func() bool {
		resp, err := admin.ListWatchers(testContext(t), &fanoutv1.ListWatchersRequest{})
		if err != nil || len(resp.GetWatchers()) != 1 {
			return false
		}
		id = resp.GetWatchers()[0].GetId()
		return id != other
	})
	return id
}

// gateSees waits until a gate for a revision sees so many watches that have applied it, of one.
func gateSees(t *testing.T, admin fanoutv1.AdminServiceClient, revision, applied int64) {
	t.Helper()
	ctx, cancel := context.WithCancel(testContext(t))
	defer cancel()
	gate, err := admin.WatchApplied(ctx, &fanoutv1.WatchAppliedRequest{Resource: "config", Revision: revision})
	if err != nil {
		t.Fatal(err)
	}
	for {
		resp, err := gate.Recv()
		if err != nil {
			t.Fatalf("the gate for revision %d does not see %d watches that have applied it: %v", revision, applied, err)
		}
		if resp.GetWatches() != 1 {
			t.Errorf("got %d watches, want 1", resp.GetWatches())
		}
		if resp.GetApplied() == applied {
			return
		}
	}
}

// A gate sees a subscriber that lost its connection while it was busy, and what it applies of the messages that
// came before.
func TestAGateSeesABusySubscriberAfterAReconnect(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	link := loopback.NewLink(t, s.Address())
	writer := newClient(t, s.Address())
	admin := fanoutv1.NewAdminServiceClient(writer.Conn())
	first := put(t, writer.Resource("config"), "a", "1")
	arrived := &received{}
	next := pull(t, newClient(t, link.Address, client.WithDialOptions(grpc.WithStatsHandler(arrived))).Resource("config"))
	// take takes updates until one has the revision. The caller is then busy with it.
	take := func(revision int64) {
		t.Helper()
		for {
			u, err, _ := next()
			if err != nil {
				t.Fatal(err)
			}
			if u.Position.Revision >= revision {
				return
			}
		}
	}
	take(first)
	before := onlyWatcher(t, admin, "")
	change := func(text string) int64 {
		bytes := arrived.bytes.Load()
		revision := put(t, writer.Resource("config"), "a", text)
		poll.Until(t, "the change has arrived", func() bool { return arrived.bytes.Load() > bytes })
		return revision
	}
	second, third := change("2"), change("3")
	link.Cut()
	link.Heal()
	onlyWatcher(t, admin, before)
	gateSees(t, admin, second, 0)
	take(third) // and so has applied the second
	gateSees(t, admin, second, 1)
	gateSees(t, admin, third, 0)
	take(put(t, writer.Resource("config"), "a", "4"))
	gateSees(t, admin, third, 1)
}
