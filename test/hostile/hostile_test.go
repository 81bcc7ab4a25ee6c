package hostile

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
	"github.com/fanoutd/fanoutd/test/subscription"
)

const resource = "config"

// wellBehaved is a client that behaves.
type wellBehaved struct {
	writes   fanoutv1.StoreServiceClient
	streams  []fanoutv1.FanoutService_WatchClient // one over Watch, and one over Subscribe
	received int
}

func newWellBehaved(ctx context.Context, t *testing.T, address string) *wellBehaved {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.WaitForReady(true)))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	h := &wellBehaved{writes: fanoutv1.NewStoreServiceClient(conn)}
	h.put(ctx, t, "first", "")
	for i := range 64 {
		h.put(ctx, t, fmt.Sprintf("large/%d", i), strings.Repeat("x", 16<<10)) // more than a flow control window
	}
	overWatch := fanoutv1.NewFanoutServiceClient(conn)
	overSubscribe := subscription.NewClient(overWatch)
	t.Cleanup(overSubscribe.Close)
	for _, client := range []fanoutv1.FanoutServiceClient{overWatch, overSubscribe} {
		stream, err := client.Watch(ctx, &fanoutv1.WatchRequest{
			Resource: resource, Scope: &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "ping"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		for kind := fanoutv1.WatchResponse_KIND_UNSPECIFIED; kind != fanoutv1.WatchResponse_KIND_SYNCED; {
			m, err := stream.Recv()
			if err != nil {
				t.Fatal(err)
			}
			kind = m.GetKind()
		}
		h.streams = append(h.streams, stream)
	}
	return h
}

func (h *wellBehaved) put(ctx context.Context, t *testing.T, key, text string) int64 {
	t.Helper()
	resp, err := h.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{
		Key: key, Value: &fanoutv1.PutOperation_Text{Text: text},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return resp.GetRevision()
}

// ping makes count writes. It waits for the events of each write before the next one, and
// returns the median time from the start of a write to its last event. Events must arrive once
// and in order.
func (h *wellBehaved) ping(ctx context.Context, t *testing.T, count int) time.Duration {
	t.Helper()
	took := make([]time.Duration, 0, count)
	for range count {
		began := time.Now()
		text := strconv.Itoa(h.received)
		written := h.put(ctx, t, "ping/"+text, text)
		for _, stream := range h.streams {
			for seen := false; !seen; {
				m, err := stream.Recv()
				if err != nil {
					t.Fatalf("a watch of the well-behaved client has ended: %v", err)
				}
				for _, e := range m.GetEvents() {
					if o := e.GetObject(); o.GetText() != text || o.GetModRevision() != written || seen {
						t.Fatalf("got %q at %d, want %q at %d", o.GetText(), o.GetModRevision(), text, written)
					}
					seen = true
				}
			}
		}
		took = append(took, time.Since(began))
		h.received++
	}
	return median(took)
}

// size returns the number of streams or connections of an attack, the number of attacks of
// each kind, and the number of writes that the well-behaved client makes during each.
// FANOUTD_HOSTILE sets numbers that are large enough for measurements.
func size(t *testing.T) (size, rounds, pings int) {
	t.Helper()
	text := os.Getenv("FANOUTD_HOSTILE")
	if text == "" {
		return 200, 1, 200
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return n, 5, 200
}

// TestWellBehavedClientAmongHostileOnes checks that the well-behaved client receives
// everything during each attack. It prints the delay, but does not check it, because the
// attackers use the same machine.
func TestWellBehavedClientAmongHostileOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, as := range []struct {
		kind  kind
		hosts int
		part  int // divides the size of the attack; 0: the full size
	}{
		{kind: neverRead, hosts: 1},
		{kind: pickNone, hosts: 1},
		{kind: pickNone, hosts: 100},
		// These clients receive events, which has a cost. Distinct selectors should not
		// increase it.
		{kind: pickAll, hosts: 1, part: 10},
		{kind: wantAll, hosts: 1, part: 10},
		{kind: sayLittle, hosts: 1},
		{kind: comeAndGo, hosts: 1},
		{kind: comeAndGo, hosts: 100},
		{kind: beginAndGo, hosts: 1},
		{kind: readAlways, hosts: 1, part: 10},
		{kind: subscribeNeverRead, hosts: 1},
		{kind: subscribeWantAll, hosts: 1},
		{kind: subscribeInSilence, hosts: 1},
		{kind: startAndStop, hosts: 1},
		{kind: startWrongly, hosts: 1},
		{kind: requestAlways, hosts: 1},
	} {
		t.Run(fmt.Sprintf("%s, hosts: %d", as.kind, as.hosts), func(t *testing.T) {
			if !measures() {
				t.Parallel()
			}
			size, rounds, pings := size(t)
			alone := pings
			if !measures() {
				alone = pings / 4 // there is nothing to compare
			}
			if as.part > 0 {
				size = max(size/as.part, perConnection)
			}
			ctx := poll.Context(t)
			address := runServer(ctx, t, 0).address
			h := newWellBehaved(ctx, t, address)
			var without, with, times []float64 // in milliseconds, and their ratio
			begun, refused := 0, 0
			for range rounds {
				h.ping(ctx, t, pings/4) // warm up; wait for the previous attackers to leave
				before := h.ping(ctx, t, alone)
				stop := (&attack{Kind: as.kind, Address: address, Size: size, Hosts: as.hosts}).launch(ctx, t)
				during := h.ping(ctx, t, pings)
				became := stop()
				begun, refused = begun+became.Begun, refused+became.Refused
				without, with = append(without, before.Seconds()*1e3), append(with, during.Seconds()*1e3)
				times = append(times, float64(during)/float64(before))
			}
			t.Logf("%d begun, %d refused; from write to event %.2f ms without and %.2f ms with attackers: ratio %.1f, by round %.1f",
				begun, refused, median(without), median(with), median(times), times)
			if want := rounds * (pings/4 + alone + pings); h.received != want {
				t.Errorf("got %d events, want %d", h.received, want)
			}
			if begun == 0 {
				t.Error("no attack took place")
			}
		})
	}
}

func median[T cmp.Ordered](of []T) T { return slices.Sorted(slices.Values(of))[len(of)/2] }
