package observability

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/cluster/certs"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
	"github.com/fanoutd/fanoutd/test/poll"
)

// member starts a server that has just become the first of three, with a certificate. It serves reads.
func member(t *testing.T) *instance {
	t.Helper()
	single := inprocess.Config(t)
	inprocess.Start(t, single).Stop()
	members := map[string]string{}
	for _, name := range []string{"node-1", "node-2", "node-3"} {
		members[name] = loopback.FreeAddress(t)
	}
	directory := certs.Directory(t.TempDir())
	own, err := certs.ParseMember("node-1=" + members["node-1"])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := directory.Add([]certs.Member{own}, certs.Terms{Now: time.Now(), Member: certs.MemberLifetime, Authority: certs.AuthorityLifetime}); err != nil {
		t.Fatal(err)
	}
	in := start(t, func(cfg *config.Config) {
		cfg.DataDir, cfg.EmbeddedEtcdListen = single.DataDir, ""
		cfg.Cluster = config.NewCluster()
		cfg.Cluster.Name = "node-1"
		cfg.Cluster.Members = members
		files := filepath.Join(string(directory), "node-1")
		cfg.Cluster.CAFile, cfg.Cluster.CertFile, cfg.Cluster.KeyFile = filepath.Join(files, "ca.pem"), filepath.Join(files, "cert.pem"), filepath.Join(files, "key.pem")
	})
	poll.Until(t, "the server has looked at the cluster", func() bool { return in.scrape(t)["fanoutd_cluster_members"] != nil })
	return in
}

// ofCluster returns the metrics that only a member of a cluster has.
func ofCluster(t *testing.T) scrape {
	t.Helper()
	all := member(t).scrape(t)
	for name := range all {
		if !strings.HasPrefix(name, "fanoutd_cluster_") {
			delete(all, name)
		}
	}
	return all
}
