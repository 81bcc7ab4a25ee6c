package store_test

import (
	"os"
	"os/exec"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// writerVariable makes a test binary write to the etcd at the address in the variable,
// until it is killed.
const writerVariable = "STORE_TEST_WRITER"

func TestMain(m *testing.M) {
	if address := os.Getenv(writerVariable); address != "" {
		writeUntilKilled(address)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		etcdproc.Clean()
		os.Exit(code)
	}))
}

// writer is a process that writes until it is killed.
type writer struct{ cmd *exec.Cmd }

func startWriter(t testing.TB, address string) *writer {
	t.Helper()
	w := &writer{exec.Command(os.Args[0])}
	w.cmd.Env = append(os.Environ(), writerVariable+"="+address)
	w.cmd.Stderr = os.Stderr
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.kill)
	return w
}

// kill kills the process, unless it is dead already.
func (w *writer) kill() {
	if w.cmd.ProcessState == nil {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait() // reports the signal
	}
}
