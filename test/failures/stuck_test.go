package failures

import (
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// TestSubscriberStuck stops reading one stream: only its own flow-control window fills, and
// other subscribers are not affected. When it reads again, it catches up.
func TestSubscriberStuck(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	address := etcdproc.Start(t, "http")
	client := dialEtcd(t, address)
	f := startFanoutd(t, over(address)...)
	// A window of fixed size: the rest stays in fanoutd.
	window := []grpc.DialOption{grpc.WithStaticStreamWindowSize(64 << 10), grpc.WithStaticConnWindowSize(64 << 10)}
	stuck := newSubscribers("stuck subscriber")
	for _, s := range stuck {
		s.subscribe(t, fanoutv1.NewFanoutServiceClient(dial(t, f.address, window...)))
		s.until(t, object.Synced)
	}
	var resume []func()
	for _, s := range stuck {
		resume = append(resume, s.stall(t))
	}
	reader := newSubscribers("reading subscriber")
	reader.subscribe(t, f.reads)
	reader.until(t, object.Synced)

	value := strings.Repeat("x", 100_000)
	var last object.Revision
	for i := range 200 {
		client.put(t, "large", value+string(rune('a'+i%26)))
		last = client.put(t, fmt.Sprintf("k/%03d", i%50), "small") // for the other watches of the streams
		if i%20 == 0 {
			reader.reach(t, last) // right after the write
		}
	}
	reader.reach(t, last)
	for _, read := range resume {
		read()
	}
	stuck.reach(t, last)

	all := append(stuck, reader...)
	all.caughtUp(t, object.Reset)
	all.validate(t, client.truth(t))
}
