package main

import (
	"strings"
	"sync"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// serverBehindLink starts a server that reaches its etcd, that of another server, over a link.
func serverBehindLink(t *testing.T) (address string, etcd *loopback.Link) {
	t.Helper()
	first := inprocess.Config(t)
	first.EmbeddedEtcdListen = loopback.FreeAddress(t)
	inprocess.Start(t, first)
	etcd = loopback.NewLink(t, first.EmbeddedEtcdListen)
	second := inprocess.Config(t)
	second.EtcdEndpoints, second.DataDir, second.EmbeddedEtcdUnsafe = []string{etcd.Address}, config.Defaults().DataDir, false
	return inprocess.Start(t, second).Address(), etcd
}

// While a server has lost etcd, commands say so, and reads name the flag that does without etcd. A watch does
// not blame the server, which answers.
func TestOutageOfEtcdIsExplained(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address, etcd := serverBehindLink(t)
	plainly(t, address, nil, "put", "config", "a", "1")
	running := inTerminal(t, address, 120, nil, "watch", "config")
	running.await(`ADDED +a`)
	etcd.Cut()

	const hint = "; use --allow-stale to read what the server has in memory\n"
	var commands sync.WaitGroup // which take long, until they give up
	for _, c := range []struct {
		args, end string
		code      int
	}{
		{"get config a", "fanoutctl: " + address + " has lost etcd" + hint, exitUnavailable},
		{"list config", "fanoutctl: " + address + " has lost etcd" + hint, exitUnavailable},
		{"get config a --timeout 2s", hint, exitTimeout},
		{"put config b 1", "fanoutctl: " + address + " has lost etcd; nothing was written\n", exitUnavailable},
		{"describe config a", "fanoutctl: " + address + " has lost etcd\n", exitUnavailable},
		{"watch config --timeout 5s", "fanoutctl: timed out before the initial state was complete: " + address + " has lost etcd\n", exitTimeout},
	} {
		commands.Go(func() {
			_, errs, code := runWithExitCode(t, address, strings.Fields(c.args)...)
			if code != c.code || !strings.HasSuffix(errs, c.end) {
				t.Errorf("%s: exit code %d: %s", c.args, code, errs)
			}
		})
	}
	commands.Wait()
	if out, errs, code := runWithExitCode(t, address, "get", "config", "a", "--allow-stale"); code != exitOK || out != "1" || errs != "" {
		t.Errorf("a stale read: exit code %d: %s%s", code, out, errs)
	}
	running.await(address + ` has lost etcd; retrying`)
	running.press("\x03")
}
