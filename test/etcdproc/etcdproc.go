// Package etcdproc runs etcd in processes of its own, for tests. It is the etcd of
// go.mod, built when the first test needs it.
//
// Most tests need [Start]: an etcd that is there. Those who are about what happens
// when it is not get a [Member], which can be killed, started again, and put back
// to an earlier state.
package etcdproc

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

const program = "github.com/fanoutd/fanoutd/test/etcd"

// dir holds the program while the tests run.
var dir string

var build = sync.OnceValues(func() (string, error) {
	var err error
	if dir, err = os.MkdirTemp("", "etcdproc-"); err != nil {
		return "", err
	}
	path := filepath.Join(dir, "etcd")
	if out, err := exec.Command("go", "build", "-o", path, program).CombinedOutput(); err != nil {
		return "", fmt.Errorf("build etcd: %w\n%s", err, out)
	}
	return path, nil
})

// executable returns the path of the program.
func executable(t testing.TB) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Clean removes the program. TestMain calls it when the tests have run.
func Clean() { os.RemoveAll(dir) }

// Start starts an etcd of one member with an empty data directory, with these
// arguments besides those that every test needs, and returns the address at which
// it serves clients. Scheme is http, or https where the arguments say so. The
// process ends with the test.
func Start(t testing.TB, scheme string, args ...string) (address string) {
	t.Helper()
	return StartMember(t, scheme, args...).Address
}
