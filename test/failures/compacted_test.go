package failures

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/loopback"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// TestEtcdWatchCompactedAway compacts the server's etcd watch away: watchers catch up with the
// difference, over gRPC and over HTTP, and no stream ends. Live messages skip nothing.
func TestEtcdWatchCompactedAway(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	address := etcdproc.Start(t, "http")
	client := dialEtcd(t, address)
	way := loopback.NewLink(t, address)
	overHTTP := loopback.FreeAddress(t)
	f := startFanoutd(t, append(over(way.Address), "--admin-listen", overHTTP)...)
	client.put(t, "z", "goes")
	client.put(t, "y", "is replaced")
	known := client.putMany(t, "before", 50)
	latest := newSubscribers("latest")
	for _, s := range latest {
		s.history.Latest = true
	}
	all := append(newSubscribers("every"), latest...)
	all.subscribe(t, f.reads)
	all.until(t, object.Synced)
	lines := watchHTTP(t, overHTTP)
	for lines.next(t).Kind != object.Synced {
	}

	way.Cut()
	client.putMany(t, "before", 10)
	client.putMany(t, "meanwhile", 30)
	client.put(t, "passing", "comes and goes")
	client.remove(t, "passing")
	client.remove(t, "y")
	client.put(t, "y", "replaced")
	last := client.remove(t, "z")
	client.read(t)
	if _, err := client.Compact(t.Context(), int64(last), clientv3.WithCompactPhysical()); err != nil {
		t.Fatal(err)
	}
	way.Heal()
	all.reach(t, last)
	end := client.putMany(t, "after", 10)
	truth := client.truth(t)
	truth.Gaps = []check.Gap{{After: known, Until: last}}
	all.reach(t, end)
	all.caughtUp(t, object.Reset, object.Delta)
	all.validate(t, truth)
	for lines.next(t).Position.Revision < end {
	}
	h := &check.History{Watcher: "HTTP", Streams: []check.Stream{lines.stream}}
	if err := check.Validate(h, truth); err != nil {
		t.Error(err)
	}
}

// httpWatch is a watch over HTTP.
type httpWatch struct {
	scanner *bufio.Scanner
	stream  check.Stream
}

// watchHTTP opens a watch of the whole resource over HTTP. The end of the test closes it.
func watchHTTP(t *testing.T, address string) *httpWatch {
	t.Helper()
	ctx, cancel := context.WithCancel(contextFor(t))
	t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/v1/resources/"+resource+"/watch", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { response.Body.Close() })
	w := &httpWatch{scanner: bufio.NewScanner(response.Body)}
	w.scanner.Buffer(nil, 4<<20)
	return w
}

// next returns the next message.
func (w *httpWatch) next(t *testing.T) check.Message {
	t.Helper()
	if !w.scanner.Scan() {
		t.Fatalf("the watch over HTTP ended: %v", w.scanner.Err())
	}
	var line struct{ Result json.RawMessage }
	var response fanoutv1.WatchResponse
	if err := json.Unmarshal(w.scanner.Bytes(), &line); err != nil {
		t.Fatalf("%s: %v", w.scanner.Bytes(), err)
	}
	if err := protojson.Unmarshal(line.Result, &response); err != nil {
		t.Fatalf("%s: %v", w.scanner.Bytes(), err)
	}
	m, err := recorded.Message(&response)
	if err != nil {
		t.Fatal(err)
	}
	w.stream.Messages = append(w.stream.Messages, m)
	return m
}
