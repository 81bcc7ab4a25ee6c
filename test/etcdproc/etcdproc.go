// Package etcdproc runs etcd processes for tests. It builds the etcd of go.mod when a test
// first needs it.
//
// Most tests call [Start] for an etcd that keeps running. Tests of failures use a [Member],
// which can be killed, restarted, and reset to an earlier state.
package etcdproc

import (
	"testing"

	"github.com/fanoutd/fanoutd/test/program"
)

var etcd = program.Program{Folder: "test/etcd"}

// Clean removes the program. TestMain calls it after the tests.
func Clean() { etcd.Clean() }

// Functions returns shell code that defines etcdctl and etcdutl.
func Functions(t testing.TB) string {
	t.Helper()
	path := etcd.Path(t)
	return "etcdctl() { " + path + ` etcdctl "$@"; }` + "\n" + "etcdutl() { " + path + ` etcdutl "$@"; }` + "\n"
}

// Start starts an etcd of one member with an empty data directory, with these arguments in
// addition to those of every test, and returns its client address. Scheme is http, or https
// if the arguments configure TLS. The process ends with the test.
func Start(t testing.TB, scheme string, args ...string) (address string) {
	t.Helper()
	return StartMember(t, scheme, args...).Address
}
