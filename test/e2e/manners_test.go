package e2e

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/etcdproc"
	"github.com/fanoutd/fanoutd/test/fanoutdproc"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// TestHangupChecksFiles checks that SIGHUP does not end the process, and that a file that has
// changed before the signal is in use when the log says that the files were checked.
func TestHangupChecksFiles(t *testing.T) {
	keyset, _, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "keys.json")
	certs.Write(t, path, keyset)
	s := startServer(t, append(embedded(t, loopback.FreeAddress(t)), "--keyset-file", path)...)
	for signals := 1; signals <= 3; signals++ {
		keyset = append(keyset, '\n')
		certs.Write(t, path, keyset)
		s.signal(t, syscall.SIGHUP)
		var log string
		poll.Until(t, "the log says that the files were checked", func() bool {
			log = s.output(t)
			return strings.Count(log, "signal=SIGHUP") == signals
		})
		if n := strings.Count(log, "file has changed and is in use"); n != signals {
			t.Errorf("got %d lines about changed files after %d changes and signals:\n%s", n, signals, log)
		}
	}
	put(t, s.conn, "a", []byte("1"))
	s.end(t, syscall.SIGTERM)
}

// TestServerSurvivesTheReaderOfItsLog checks that a server goes on, and stops cleanly, when
// the process at the other end of its standard error has gone, as in `fanoutd 2>&1 | head -1`.
func TestServerSurvivesTheReaderOfItsLog(t *testing.T) {
	address := loopback.FreeAddress(t)
	cmd := exec.Command(fanoutdproc.Program(t), append([]string{"--listen", address, "--admin-listen", ""}, embedded(t, loopback.FreeAddress(t))...)...)
	cmd.Env = cleanEnvironment()
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	lines := bufio.NewScanner(log)
	for lines.Scan() && !strings.Contains(lines.Text(), "msg=serving ") {
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	conn := dial(t, address)
	put(t, conn, "a", []byte("1"))
	// Each of these writes a line to the log, which nobody reads.
	for _, signal := range []os.Signal{syscall.SIGHUP, syscall.SIGTERM} {
		if err := cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("got %v, want a clean stop", err)
	}
}

// TestUnreachableEtcdIsReported checks that the log and /readyz say why a server is not
// ready while no member of etcd answers, and that it becomes ready when one does.
func TestUnreachableEtcdIsReported(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	etcd := etcdproc.StartMember(t, "http")
	link := loopback.NewLink(t, etcd.Address)
	link.Cut()
	web := loopback.FreeAddress(t)
	s := &server{address: loopback.FreeAddress(t), log: t.TempDir() + "/fanoutd.log"}
	s.process = start(t, s.log, fanoutdproc.Program(t), "--listen", s.address, "--admin-listen", web, "--etcd-endpoints", link.Address)
	poll.Until(t, "the log names endpoint and cause", func() bool {
		for line := range strings.Lines(s.output(t)) {
			if strings.Contains(line, "cannot reach etcd") && strings.Contains(line, link.Address) && strings.Contains(line, "connection error") {
				return true
			}
		}
		return false
	})
	if code, body := get(t, "http://"+web+"/readyz"); code != http.StatusServiceUnavailable || !strings.Contains(body, "etcd cannot be reached") || strings.Contains(body, link.Address) {
		t.Errorf("/readyz: got %d %q, want 503 with the reason and without the address", code, body)
	}
	conn := dial(t, s.address)
	ctx := poll.Context(t)
	stale := &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
	for want, consistency := range map[string]*fanoutv1.ReadConsistency{"STORE_UNAVAILABLE": nil, "NOT_READY": stale} {
		_, err := fanoutv1.NewFanoutServiceClient(conn).Get(ctx, &fanoutv1.GetRequest{Resource: resource, Key: "a", Consistency: consistency})
		if got := reasonOf(err); got != want {
			t.Errorf("Get: got reason %q (%v), want %q", got, err, want)
		}
	}
	link.Heal()
	poll.Until(t, "the server is ready", func() bool {
		code, _ := get(t, "http://"+web+"/readyz")
		return code == http.StatusOK
	})
	if !strings.Contains(s.output(t), "etcd can be reached again") {
		t.Errorf("the log does not say that etcd can be reached again:\n%s", s.output(t))
	}
	s.end(t, syscall.SIGTERM)
}

// get returns the status and the body of an HTTP answer, or 0 if there is none.
func get(t *testing.T, url string) (code int, body string) {
	t.Helper()
	ctx := poll.Context(t)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, string(text)
}
