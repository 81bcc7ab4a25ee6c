package robustness

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"
)

// root is the module of fanoutd. Programs are built there, so that they are what
// its go.mod says.
const root = "../.."

// programs is where they are built.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "fanoutd-robustness-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs)
		os.Exit(code)
	}))
}

var (
	fanoutd = sync.OnceValues(func() (string, error) { return build("fanoutd", "./cmd/fanoutd") })
	etcd    = sync.OnceValues(func() (string, error) { return build("etcd", "./test/etcd") })
)

func build(name, pkg string) (string, error) {
	path := filepath.Join(programs, name)
	cmd := exec.Command("go", "build", "-o", path, pkg)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s: %w\n%s", name, err, out)
	}
	return path, nil
}
