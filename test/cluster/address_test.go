package cluster_test

import (
	"net"
	"net/http"
	"strconv"
	"testing"

	"github.com/fanoutd/fanoutd/test/poll"
)

// A member that is listed with a name is reached over IPv4 and IPv6.
func TestMemberWithANameListensOnAllAddresses(t *testing.T) {
	free, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	free.Close()
	cfg := machines(t, "node-1", "node-2", "node-3")["node-1"]
	cfg.Cluster.Members["node-1"] = "node-1.invalid:" + port
	m := launch(t, cfg)
	m.says(t, "waiting for node-1: its own address")
	for _, host := range []string{"127.0.0.1", "::1"} {
		if l, err := net.Listen("tcp", net.JoinHostPort(host, "0")); err != nil {
			t.Logf("this machine has no %s: %v", host, err)
			continue
		} else {
			l.Close()
		}
		r, err := http.NewRequestWithContext(poll.Context(t), http.MethodGet, "http://"+net.JoinHostPort(host, port)+"/fanoutd/cluster", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Errorf("%s: %v", host, err)
			continue
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Errorf("%s: got %s", host, resp.Status)
		}
	}
	m.cancel()
	<-m.done
}
