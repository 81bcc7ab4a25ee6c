// Package etcdproc runs etcd in processes of its own, for tests. It is the etcd of
// go.mod, built when the first test needs it.
//
// Most tests need [Start]: an etcd that is there. Those who are about what happens
// when it is not get a [Member], which can be killed, started again, and put back
// to an earlier state.
package etcdproc

import (
	"testing"

	"github.com/fanoutd/fanoutd/test/program"
)

var etcd = program.Program{Folder: "test/etcd"}

// Clean removes the program. TestMain calls it when the tests have run.
func Clean() { etcd.Clean() }

// Start starts an etcd of one member with an empty data directory, with these
// arguments besides those that every test needs, and returns the address at which
// it serves clients. Scheme is http, or https where the arguments say so. The
// process ends with the test.
func Start(t testing.TB, scheme string, args ...string) (address string) {
	t.Helper()
	return StartMember(t, scheme, args...).Address
}
