package store_test

import (
	"bufio"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// A write without a time to live that replaces no lease costs etcd one request.
func TestWritesWithoutLeasesCostOneRequest(t *testing.T) {
	address := etcdproc.Start(t, "http")
	c := dialStore(t, store.ExternalConfig{Endpoints: []string{address}})
	commit(t, c, put("k", "v"))
	before := requests(t, address)
	const n = 20
	for i := range n {
		commit(t, c, put("k", fmt.Sprint(i)), put(fmt.Sprintf("new%d", i), "v"))
		commit(t, c, remove(fmt.Sprintf("new%d", i)))
	}
	after := requests(t, address)
	for method, want := range map[string]int{"Txn": 2 * n, "Put": 0, "LeaseGrant": 0, "LeaseTimeToLive": 0, "LeaseRevoke": 0} {
		if got := after[method] - before[method]; got != want {
			t.Errorf("%d writes cost %d requests %s, want %d", 2*n, got, method, want)
		}
	}
}

var startedRequests = regexp.MustCompile(`^grpc_server_started_total\{grpc_method="(\w+)".*\} (\d+)$`)

// requests returns how many requests of each method an etcd has received.
func requests(t *testing.T, address string) map[string]int {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	counts := map[string]int{}
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if m := startedRequests.FindStringSubmatch(lines.Text()); m != nil {
			counts[m[1]], _ = strconv.Atoi(m[2])
		}
	}
	if counts["Txn"] == 0 {
		t.Fatal("the metrics of etcd do not count requests")
	}
	return counts
}

// A put of an object that the server knows makes etcd look the key up once, to compare its revision,
// and not again for its lease.
func TestPutsOfKnownObjectsReadNothing(t *testing.T) {
	address := etcdproc.Start(t, "http")
	c := dialStore(t, store.ExternalConfig{Endpoints: []string{address}})
	known := &object.Seen{}
	before := metric(t, address, "etcd_mvcc_range_total")
	const n = 20
	for i := range n {
		op := put("k", fmt.Sprint(i))
		op.Seen = known
		known = &object.Seen{ModRevision: commit(t, c, op)}
	}
	// Other parts of the store read a few keys, too.
	if got := metric(t, address, "etcd_mvcc_range_total") - before; got >= 2*n {
		t.Errorf("%d puts made etcd read %d times, want about %d", n, got, n)
	}
}

// metric returns the value of a counter of etcd.
func metric(t *testing.T, address, name string) int {
	t.Helper()
	resp, err := http.Get("http://" + address + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	defer http.DefaultClient.CloseIdleConnections()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			n, err := strconv.Atoi(value)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
	}
	t.Fatalf("etcd has no metric %s", name)
	return 0
}
