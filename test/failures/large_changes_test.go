package failures

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/grpcproxy"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// TestChangesThatAProxyRefuses cuts the link to etcd while large values are written. A proxy before
// etcd refuses to send them: together, or even a single one. The watch goes on, with a catch-up if
// single changes are lost, and a server that starts becomes ready. etcd does not read the
// changes again and again.
func TestChangesThatAProxyRefuses(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	for name, c := range map[string]struct {
		settings string
		maxSend  int
		catchUps []object.CatchUpKind
	}{
		"together":                  {"", 8 << 20, []object.CatchUpKind{object.Reset}},
		"each":                      {"", 512 << 10, []object.CatchUpKind{object.Reset, object.Delta}},
		"together, without a cache": {"    cache: off\n", 8 << 20, []object.CatchUpKind{object.Reset}},
		"each, without a cache":     {"    cache: off\n", 512 << 10, []object.CatchUpKind{object.Reset, object.Reset}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := etcdproc.Start(t, "http")
			client := dialEtcd(t, address)
			var watches atomic.Int64
			proxy := grpcproxy.Start(t, grpcproxy.Config{Target: address, MaxSend: c.maxSend, Admit: func(_ context.Context, method string) error {
				if method == "Watch" {
					watches.Add(1)
				}
				return nil
			}})
			way := loopback.NewLink(t, proxy.Address)
			path := filepath.Join(t.TempDir(), "fanoutd.yaml")
			text := fmt.Sprintf("resources:\n  - name: %s\n    prefix: %s\n    codec: raw\n%s", resource, etcdPrefix, c.settings)
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			f := startFanoutd(t, append(over(way.Address), "--config", path)...)
			known := client.put(t, "k", "before")
			s := newSubscriber("subscriber")
			s.subscribe(t, f.reads)
			s.until(t, object.Synced)

			way.Cut()
			for range 20 {
				client.put(t, "k", strings.Repeat("x", 1_000_000))
			}
			last := client.put(t, "k", "after")
			watches.Store(0)
			way.Heal()
			s.reach(t, last)
			s.caughtUp(t, c.catchUps...)
			// The failover may move the watch once more.
			if n := watches.Load(); n > 8 {
				t.Errorf("the server watched %d times after the link was healed, want a few", n)
			}
			end := client.put(t, "k", "live")
			s.reach(t, end)
			truth := client.truth(t)
			if len(c.catchUps) > 1 {
				truth.Gaps = []check.Gap{{After: known, Until: last}}
			}
			s.validate(t, truth)

			f.end(t, os.Kill)
			watches.Store(0)
			f.start(t)
			if n := watches.Load(); n > 8 {
				t.Errorf("the server watched %d times at its start, want a few", n)
			}
		})
	}
}
