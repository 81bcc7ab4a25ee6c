package main

import (
	"flag"
	"strings"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.uber.org/zap"
)

// restore creates the data directory of a member. Its flags have the names and defaults of
// the server's and etcdutl's.
func restore(args []string) error {
	flags := flag.NewFlagSet("restore", flag.ContinueOnError)
	var cfg snapshot.RestoreConfig
	flags.StringVar(&cfg.SnapshotPath, "snapshot", "", "file")
	flags.StringVar(&cfg.Name, "name", "default", "of the member")
	flags.StringVar(&cfg.OutputDataDir, "data-dir", "", "of the member")
	flags.StringVar(&cfg.InitialCluster, "initial-cluster", "default=http://localhost:2380", "all members")
	flags.StringVar(&cfg.InitialClusterToken, "initial-cluster-token", "etcd-cluster", "of the cluster")
	flags.Uint64Var(&cfg.RevisionBump, "bump-revision", 0, "by so much")
	flags.BoolVar(&cfg.MarkCompacted, "mark-compacted", false, "what was before")
	peers := flags.String("initial-advertise-peer-urls", "http://localhost:2380", "of the member")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg.PeerURLs = strings.Split(*peers, ",")
	return snapshot.NewV3(zap.NewNop()).Restore(cfg)
}
