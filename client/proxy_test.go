package client_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/client"
)

// throughProxy has a process of its own, which is this test again, connect through
// the proxy: a process reads its environment once.
const throughProxy = "FANOUTD_TEST_THROUGH_PROXY"

// A proxy on this machine is not where a connection ends.
func TestTokensDoNotLeaveThroughAProxy(t *testing.T) {
	t.Parallel()
	if os.Getenv(throughProxy) != "" {
		connectThroughProxy(t)
		return
	}
	service := &tokens{}
	proxy := httptest.NewServer(tunnel(serveTokens(t, service)))
	t.Cleanup(proxy.Close)
	cmd := exec.CommandContext(within(t), os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), throughProxy+"=1", "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if len(service.got) > 0 {
		t.Errorf("the server got %v", service.got)
	}
}

// connectThroughProxy talks to an address that only the proxy can reach. It is not
// one of the loopback interface, for which nobody uses a proxy; but it leads there,
// where the port is closed.
func connectThroughProxy(t *testing.T) {
	const elsewhere = "0.0.0.0:1"
	if _, err := newClient(t, elsewhere, client.WithInsecure()).Resource("config").Get(within(t), "a"); err != nil {
		t.Errorf("without a token: %v", err)
	}
	_, err := newClient(t, elsewhere, client.WithInsecure(), client.WithToken("secret")).Resource("config").Get(within(t), "a")
	if status.Code(err) != codes.Unavailable {
		t.Errorf("with a token: %v", err)
	}
}

// tunnel is a proxy that leads everybody to one address, wherever they want to go.
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
				// It is over when one of them has gone.
				io.Copy(way[0], way[1])
				here.Close()
				there.Close()
			})
		}
		both.Wait()
	})
}
