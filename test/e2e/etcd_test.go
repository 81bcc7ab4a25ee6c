package e2e

import (
	"context"
	"path/filepath"
	"testing"
)

// startEtcd starts an etcd process and returns the address at which it serves.
func startEtcd(t *testing.T) string {
	t.Helper()
	client, peer := freeAddress(t), freeAddress(t)
	p := start(t, filepath.Join(keep(t), "etcd.log"), program(t, etcdProgram),
		"--data-dir", filepath.Join(t.TempDir(), "etcd"),
		"--listen-client-urls", "http://"+client, "--advertise-client-urls", "http://"+client,
		"--listen-peer-urls", "http://"+peer, "--initial-advertise-peer-urls", "http://"+peer,
		"--initial-cluster", "default=http://"+peer,
		"--unsafe-no-fsync", "--log-level", "warn")
	ctx, cancel := context.WithTimeout(t.Context(), startTimeout)
	defer cancel()
	if _, err := dialEtcd(t, client).Get(ctx, "x"); err != nil {
		t.Fatalf("etcd does not serve: %v\n%s", err, tail(p.output(t)))
	}
	return client
}
