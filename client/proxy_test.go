package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
)

// throughProxy is set in the process that connects through the proxy. It runs this test
// again; it must be a new process because Go reads the proxy variables once.
const throughProxy = "FANOUTD_TEST_THROUGH_PROXY"

// A connection to a proxy on this machine does not end on this machine.
func TestTokensDoNotLeaveThroughAProxy(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	if os.Getenv(throughProxy) != "" {
		connectThroughProxy(t)
		return
	}
	service := &tokenServer{}
	proxy := httptest.NewServer(tunnel(serveTokens(t, service)))
	t.Cleanup(proxy.Close)
	cmd := exec.CommandContext(testContext(t), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), throughProxy+"=1", "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(service.got) > 0 {
		t.Errorf("the server got %v", service.got)
	}
}

// connectThroughProxy connects to an address that only the proxy can reach. Go uses no
// proxy for loopback addresses, so it is not one; without the proxy it leads to a closed
// port of this machine.
func connectThroughProxy(t *testing.T) {
	const elsewhere = "0.0.0.0:1"
	if _, err := newClient(t, elsewhere, client.WithInsecure()).Resource("config").Get(testContext(t), "a"); err != nil {
		t.Errorf("without a token: %v", err)
	}
	_, err := newClient(t, elsewhere, client.WithInsecure(), client.WithToken("secret")).Resource("config").Get(testContext(t), "a")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("with a token: %v", err)
	}
}

// throughNoProxy is set in the process that must not use a proxy.
const throughNoProxy = "FANOUTD_TEST_THROUGH_NO_PROXY"

// Servers on this machine are reached without a proxy, also those of a list and of a Unix socket.
func TestServersOnThisMachineNeedNoProxy(t *testing.T) {
	if os.Getenv(throughNoProxy) != "" {
		socket := "unix://" + t.TempDir() + "/missing.sock"
		if err := failureOf(t, socket); !strings.Contains(err.Error(), "missing.sock") {
			t.Errorf("%s: got %v", socket, err)
		}
		tcp := newServer(t).Address()
		if _, err := newClient(t, tcp+","+tcp).Resource("config").Count(testContext(t)); err != nil {
			t.Errorf("a list: got %v", err)
		}
		return
	}
	t.Parallel()
	cmd := exec.CommandContext(testContext(t), os.Args[0], "-test.run=^"+t.Name()+"$")
	proxy := "=http://127.0.0.1:1"
	cmd.Env = append(os.Environ(), throughNoProxy+"=1", "HTTPS_PROXY"+proxy, "HTTP_PROXY"+proxy, "ALL_PROXY"+proxy, "NO_PROXY=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func failureOf(t *testing.T, target string) error {
	t.Helper()
	_, err := newClient(t, target).Resource("config").Count(testContext(t))
	if err == nil {
		t.Fatal("got no error")
	}
	return err
}

// tunnel is a proxy that connects every client to the same address.
func tunnel(address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			http.Error(w, "CONNECT only", http.StatusMethodNotAllowed)
			return
		}
		there, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", address)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer there.Close()
		here, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer here.Close()
		if _, err := io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n"); err != nil {
			return
		}
		var both sync.WaitGroup
		for _, way := range [][2]net.Conn{{here, there}, {there, here}} {
			both.Go(func() {
				// When one side closes, close the other.
				io.Copy(way[0], way[1])
				here.Close()
				there.Close()
			})
		}
		both.Wait()
	})
}
