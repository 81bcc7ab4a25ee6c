package hostile

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
)

const resource = "config"

// startServer runs a fanoutd until the test ends.
func startServer(ctx context.Context, t *testing.T) string {
	t.Helper()
	address := loopback.FreeAddress(t)
	cmd := exec.CommandContext(ctx, fanoutdproc.Program(t),
		"--listen", address, "--admin-listen", "", "--data-dir", filepath.Join(t.TempDir(), "data"), "--log-level", "error",
		// One host may have a tenth of what there is.
		"--max-watchers", "50000", "--max-watchers-per-client", "5000", "--max-snapshots", "64",
	)
	cmd.Env = []string{} // what is set for this test is no setting of the server
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		// Streams that nobody reads would not end in time, so it is not asked to stop.
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return address
}

// honest is a client that behaves.
type honest struct {
	writes fanoutv1.StoreServiceClient
	stream fanoutv1.FanoutService_WatchClient
	told   int
}

func newHonest(ctx context.Context, t *testing.T, address string) *honest {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h := &honest{writes: fanoutv1.NewStoreServiceClient(conn)}
	h.put(ctx, t, "first", "")
	for i := range 64 {
		h.put(ctx, t, fmt.Sprintf("large/%d", i), strings.Repeat("x", 16<<10)) // no window takes it all
	}
	h.stream, err = fanoutv1.NewFanoutServiceClient(conn).Watch(ctx, &fanoutv1.WatchRequest{
		Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "ping"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for {
		m, err := h.stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		if m.GetKind() == fanoutv1.WatchResponse_KIND_SYNCED {
			return h
		}
	}
}

func (h *honest) put(ctx context.Context, t *testing.T, key, text string) int64 {
	t.Helper()
	resp, err := h.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
		Key: key, Value: &fanoutv1.PutOperation_Text{Text: text},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

// ping writes so many times, each when it was told of the write before, and returns
// the median of the time from the beginning of a write to the event. What it is told
// must be what was written, once and in order.
func (h *honest) ping(ctx context.Context, t *testing.T, count int) time.Duration {
	t.Helper()
	took := make([]time.Duration, 0, count)
	for range count {
		began := time.Now()
		text := strconv.Itoa(h.told)
		written := h.put(ctx, t, "ping/"+text, text)
		for seen := false; !seen; {
			m, err := h.stream.Recv()
			if err != nil {
				t.Fatalf("the watch of the one who behaves ends: %v", err)
			}
			for _, e := range m.GetEvents() {
				if o := e.GetObject(); o.GetText() != text || o.GetModRevision() != written || seen {
					t.Fatalf("told of %q at %d, want %q at %d", o.GetText(), o.GetModRevision(), text, written)
				}
				seen = true
			}
		}
		took = append(took, time.Since(began))
		h.told++
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// The size of the attack: FANOUTD_HOSTILE, or else what a test can afford.
func attackers(t *testing.T) int {
	t.Helper()
	text := os.Getenv("FANOUTD_HOSTILE")
	if text == "" {
		return 200
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// Whatever the others do, who behaves is told everything. How much later than without
// them is printed; nothing depends on it, because the attackers need the machine, too.
func TestOneWhoBehavesAmongThoseWhoDoNot(t *testing.T) {
	size, pings := attackers(t), 200
	for name, run := range map[string]func(a *attack, ctx context.Context, t *testing.T){
		"streams that are never read": (*attack).neverRead,
		"giant selectors":             (*attack).giantSelectors,
		"connections that say little": (*attack).sayLittle,
		"clients that come and go":    (*attack).comeAndGo,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), wait)
			defer cancel()
			address := startServer(ctx, t)
			h := newHonest(ctx, t, address)
			h.ping(ctx, t, pings/4) // everybody is warm
			before := h.ping(ctx, t, pings)

			a := &attack{address: address, size: size}
			attacking, retreat := context.WithCancel(ctx)
			var group sync.WaitGroup
			if name == "clients that come and go" {
				for range 4 {
					group.Go(func() { run(a, attacking, t) })
				}
			} else {
				run(a, attacking, t)
			}
			during := h.ping(ctx, t, pings)
			retreat()
			group.Wait()
			t.Logf("%d begun, %d refused; median from write to event %v without, %v with them: %.1f times as long",
				a.begun.Load(), a.refused.Load(), before, during, float64(during)/float64(before))
			if h.told != 2*pings+pings/4 {
				t.Errorf("told of %d writes", h.told)
			}
			if a.begun.Load() == 0 {
				t.Error("nobody has attacked")
			}
		})
	}
}
