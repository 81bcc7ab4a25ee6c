package e2e

import (
	"testing"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// startEtcd starts an etcd process and returns the address at which it serves.
func startEtcd(t *testing.T) string {
	t.Helper()
	return etcdproc.Start(t, "http")
}
