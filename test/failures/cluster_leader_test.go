package failures

import (
	"fmt"
	"sync"
	"syscall"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// leadingServer returns the index of the server whose etcd leads, given the addresses of the etcds.
func leadingServer(t *testing.T, etcds []string) int {
	t.Helper()
	client, err := clientv3.New(clientv3.Config{Endpoints: etcds, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	leader := -1
	poll.Until(t, "a server leads", func() bool {
		for i, at := range etcds {
			s, err := client.Status(contextFor(t), at)
			if err == nil && s.Leader == s.Header.GetMemberId() {
				leader = i
			}
		}
		return leader >= 0
	})
	return leader
}

// outcomes is what writers have learned of their writes, each of another key.
type outcomes struct {
	mu                           sync.Mutex
	acknowledged, refused, other map[string]bool // guarded by mu
}

func (o *outcomes) note(key string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	switch reason := reasonOf(err); {
	case err == nil:
		o.acknowledged[key] = true
	case reason == "WRITE_NOT_APPLIED" || reason == "CLUSTER_FORMING":
		o.refused[key] = true
	default:
		o.other[key] = true
	}
}

func (o *outcomes) written() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.acknowledged)
}

// writers are two writers at each of some servers.
type writers struct {
	outcomes
	servers []*instance
	stop    chan struct{}
	writing sync.WaitGroup
}

func startWriters(t *testing.T, servers []*instance) *writers {
	t.Helper()
	w := &writers{servers: servers, stop: make(chan struct{})}
	w.acknowledged, w.refused, w.other = map[string]bool{}, map[string]bool{}, map[string]bool{}
	const perServer = 2
	for i, s := range servers {
		for j := range perServer {
			w.writing.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-w.stop:
						return
					default:
					}
					key := fmt.Sprintf("server-%d/%d/%06d", i, j, n)
					w.note(key, s.put(t, key, key))
				}
			})
		}
	}
	return w
}

// goOn waits for a hundred acknowledged writes.
func (w *writers) goOn(t *testing.T) {
	t.Helper()
	before := w.written()
	poll.Until(t, "writes go on", func() bool { return w.written() > before+100 })
}

// end ends the writers, and checks that each server has what was acknowledged, and nothing that was reported as
// not applied.
func (w *writers) end(t *testing.T) {
	t.Helper()
	close(w.stop)
	w.writing.Wait()
	t.Logf("%d acknowledged, %d not applied, %d of unknown outcome", len(w.acknowledged), len(w.refused), len(w.other))
	for i, s := range w.servers {
		found := map[string]bool{}
		for token := ""; ; {
			resp, err := s.reads.List(contextFor(t), &fanoutv1.ListRequest{Resource: resource, PageToken: token})
			if err != nil {
				t.Fatal(err)
			}
			for _, object := range resp.GetObjects() {
				found[object.GetKey()] = true
			}
			if token = resp.GetNextPageToken(); token == "" {
				break
			}
		}
		for key := range w.acknowledged {
			if !found[key] {
				t.Errorf("server %d: the acknowledged write of %s is lost", i, key)
			}
		}
		for key := range w.refused {
			if found[key] {
				t.Errorf("server %d: %s is there, although its write was reported as not applied", i, key)
			}
		}
	}
}

// TestLeaderOfAClusterFails kills the leading server under the writes of all, and freezes the next one. No
// acknowledged write is lost, no write that was reported as not applied is there, and each writer at another
// server has at most one write of unknown outcome for each failure.
func TestLeaderOfAClusterFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, etcds := startServers(t)
	w := startWriters(t, servers)
	w.goOn(t)
	killed := leadingServer(t, etcds)
	servers[killed].end(t, syscall.SIGKILL)
	w.goOn(t)
	servers[killed].start(t)
	w.goOn(t)
	frozen := leadingServer(t, etcds)
	if err := servers[frozen].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	w.goOn(t)
	if err := servers[frozen].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	w.goOn(t)
	w.end(t)

	unknown := map[string]int{}
	for key := range w.other {
		unknown[key[:len("server-0/0")]]++
	}
	for writer, n := range unknown {
		var server int
		if _, err := fmt.Sscanf(writer, "server-%d", &server); err != nil {
			t.Fatal(err)
		}
		if server != killed && server != frozen && n > 2 {
			t.Errorf("%s has %d writes of unknown outcome", writer, n)
		}
	}
	_, err := servers[killed].reads.Get(contextFor(t), &fanoutv1.GetRequest{Resource: resource, Key: "missing"})
	if status.Code(err) != codes.NotFound {
		t.Errorf("a read after all: %v", err)
	}
}
