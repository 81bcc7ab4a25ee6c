package hostile

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/poll"
)

// metrics reads the metrics of a server. It keeps its connection.
type metrics struct {
	client http.Client
	url    string
}

func newMetrics(t *testing.T, p *process) *metrics {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: 1}
	t.Cleanup(transport.CloseIdleConnections)
	return &metrics{http.Client{Transport: transport}, "http://" + p.admin + "/metrics"}
}

// value returns a metric, or -1 if the server does not have it or does not answer.
func (m *metrics) value(ctx context.Context, t *testing.T, name string) float64 {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, m.url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := m.client.Do(req)
	if err != nil {
		return -1
	}
	defer resp.Body.Close()
	found := -1.0
	lines := bufio.NewScanner(resp.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			if found, err = strconv.ParseFloat(text, 64); err != nil {
				t.Fatal(err)
			}
		}
	}
	return found
}

// Idle connections of strangers take all file descriptors that connections may have. The
// embedded etcd still opens its next files, writes succeed, and connections are accepted again
// when others end.
func TestConnectionsLeaveFilesToEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const openFiles, reserved = 256, 100
	ctx := poll.Context(t)
	server := runServer(ctx, t, openFiles)
	h := newWellBehaved(ctx, t, server.address)
	m := newMetrics(t, server)
	if !poll.Wait(ctx, func() bool { return m.value(ctx, t, "fanoutd_connections_max") >= 0 }) {
		t.Fatal("the server does not say how many connections it accepts")
	}
	if most := m.value(ctx, t, "fanoutd_connections_max"); most != openFiles-reserved {
		t.Errorf("the server accepts %v connections, want %d", most, openFiles-reserved)
	}
	stop := (&attack{Kind: sayLittle, Address: server.address, Size: 400, Hosts: 4}).launch(ctx, t)
	refused := `fanoutd_connections_refused_total{limit="max-connections"}`
	if !poll.Wait(ctx, func() bool { return m.value(ctx, t, refused) > 0 }) {
		t.Fatal("no connection was refused")
	}
	// etcd begins a new file of its log after each 64 MiB, and prepares one in advance.
	const megabytes = 150
	value := strings.Repeat("x", 1<<20-1<<10)
	for i := range megabytes {
		h.put(ctx, t, "file/"+strconv.Itoa(i%4), value)
	}
	h.ping(ctx, t, 10)
	t.Logf("%v of %v file descriptors are open, %v connections were refused",
		m.value(ctx, t, "process_open_fds"), m.value(ctx, t, "process_max_fds"), m.value(ctx, t, refused))
	if begun := stop().Begun; begun < openFiles {
		t.Errorf("the attackers opened %d connections, want at least %d", begun, openFiles)
	}
	if !poll.Wait(ctx, func() bool { return m.value(ctx, t, "fanoutd_connections") < openFiles/4 }) {
		t.Error("the connections of the attackers still count after their end")
	}
	newProbe(ctx, t, server.address) // a new connection
}

// However few files the server may open, idle connections of one address leave some to other clients,
// and those of many addresses some to operators: probes succeed, even from the machine of the
// attacker.
func TestIdleConnectionsLeaveSomeToOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	ctx := poll.Context(t)
	server := runServer(ctx, t, 256, "--max-connection-rate", "0")
	m := newMetrics(t, server)
	other, attackers := net.IPv4(127, 0, 3, 1), net.IPv4(127, 0, 2, 1)
	if !poll.Wait(ctx, func() bool { status, _ := ready(ctx, t, server, other); return status == http.StatusOK }) {
		t.Fatal("the server does not become ready")
	}
	refused := func(limit string) float64 {
		return m.value(ctx, t, `fanoutd_connections_refused_total{limit="`+limit+`"}`)
	}
	for _, a := range []struct {
		address string
		hosts   int
		limit   string // that refuses connections
	}{
		{server.address, 1, "max-connections-per-client"},
		{server.admin, 1, "max-connections-per-client"},
		{server.address, 4, "max-connections"},
	} {
		before := refused(a.limit)
		stop := (&attack{Kind: sayLittle, Address: a.address, Size: 400, Hosts: a.hosts}).launch(ctx, t)
		if !poll.Wait(ctx, func() bool { return refused(a.limit) > before }) {
			t.Fatalf("%s from %d hosts: %s refused no connection", a.address, a.hosts, a.limit)
		}
		from := []net.IP{other}
		if a.address != server.admin {
			from = append(from, attackers)
		}
		for _, ip := range from {
			if status, err := ready(ctx, t, server, ip); status != http.StatusOK {
				t.Errorf("%s from %d hosts: got %d, %v from /readyz of %s, want 200", a.address, a.hosts, status, err, ip)
			}
		}
		if a.hosts == 1 {
			newProbe(ctx, t, server.address)
		}
		stop()
		if !poll.Wait(ctx, func() bool { return m.value(ctx, t, "fanoutd_connections") < 10 }) {
			t.Fatal("the connections of the attackers still count after their end")
		}
	}
}

// ready returns the status of a readiness probe over a new connection from an address.
func ready(ctx context.Context, t *testing.T, p *process, from net.IP) (int, error) {
	t.Helper()
	dialer := &net.Dialer{LocalAddr: &net.TCPAddr{IP: from}}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.admin+"/readyz", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}
