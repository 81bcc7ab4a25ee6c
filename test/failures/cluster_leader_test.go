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
	switch {
	case err == nil:
		o.acknowledged[key] = true
	case reasonOf(err) == "WRITE_NOT_APPLIED":
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

// TestLeaderOfAClusterFails kills the leading server under the writes of all, and freezes the next one. No
// acknowledged write is lost, no write that was reported as not applied is there, and each writer at another
// server has at most one write of unknown outcome for each failure.
func TestLeaderOfAClusterFails(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	servers, etcds := startServers(t)
	o := &outcomes{acknowledged: map[string]bool{}, refused: map[string]bool{}, other: map[string]bool{}}
	stop := make(chan struct{})
	var writers sync.WaitGroup
	const perServer = 2
	for i, s := range servers {
		for j := range perServer {
			writers.Go(func() {
				for n := 0; ; n++ {
					select {
					case <-stop:
						return
					default:
					}
					key := fmt.Sprintf("server-%d/%d/%06d", i, j, n)
					o.note(key, s.put(t, key, key))
				}
			})
		}
	}
	goOn := func() {
		t.Helper()
		before := o.written()
		poll.Until(t, "writes go on", func() bool { return o.written() > before+100 })
	}
	goOn()
	killed := leadingServer(t, etcds)
	servers[killed].end(t, syscall.SIGKILL)
	goOn()
	servers[killed].start(t)
	goOn()
	frozen := leadingServer(t, etcds)
	if err := servers[frozen].cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	goOn()
	if err := servers[frozen].cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	goOn()
	close(stop)
	writers.Wait()

	t.Logf("%d acknowledged, %d not applied, %d of unknown outcome", len(o.acknowledged), len(o.refused), len(o.other))
	for i, s := range servers {
		resp, err := s.reads.List(contextFor(t), &fanoutv1.ListRequest{Resource: resource})
		if err != nil {
			t.Fatal(err)
		}
		found := map[string]bool{}
		for token := ""; ; token = resp.GetNextPageToken() {
			if token != "" {
				if resp, err = s.reads.List(contextFor(t), &fanoutv1.ListRequest{Resource: resource, PageToken: token}); err != nil {
					t.Fatal(err)
				}
			}
			for _, object := range resp.GetObjects() {
				found[object.GetKey()] = true
			}
			if resp.GetNextPageToken() == "" {
				break
			}
		}
		for key := range o.acknowledged {
			if !found[key] {
				t.Errorf("server %d: the acknowledged write of %s is lost", i, key)
			}
		}
		for key := range o.refused {
			if found[key] {
				t.Errorf("server %d: %s is there, although its write was reported as not applied", i, key)
			}
		}
	}
	unknown := map[string]int{}
	for key := range o.other {
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
