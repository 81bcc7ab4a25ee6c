package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/fanoutd/fanoutd/internal/cluster"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/store"
)

// Restored is a data directory that was filled, and what follows for the other servers.
type Restored struct {
	store.Restored
	Others   []string // names of the other servers of the cluster
	Majority int      // of the servers that must vote before writes are accepted
}

// Restore fills the empty data directory of these settings with a snapshot of etcd.
func Restore(ctx context.Context, cfg config.Config, file string, log *slog.Logger) (Restored, error) {
	target, others, err := restorable(ctx, cfg)
	if err != nil {
		return Restored{}, err
	}
	done, err := store.Restore(ctx, target, file, log)
	return others.with(done), err
}

// Replace is [Restore] for a data directory that may have data, which it keeps.
func Replace(ctx context.Context, cfg config.Config, file string, log *slog.Logger) (Restored, error) {
	target, others, err := restorable(ctx, cfg)
	if err != nil {
		return Restored{}, err
	}
	done, err := store.Replace(ctx, target, file, log)
	return others.with(done), err
}

// Recover makes the data in the data directory of these settings, which belongs to a member of a cluster
// without a majority, the data of a new cluster.
func Recover(ctx context.Context, cfg config.Config, log *slog.Logger) (Restored, error) {
	target, others, err := restorable(ctx, cfg)
	if err != nil {
		return Restored{}, err
	}
	done, err := store.Recover(ctx, target, log)
	return others.with(done), err
}

// InspectSurvivor reads the data that Recover would use.
func InspectSurvivor(ctx context.Context, cfg config.Config, log *slog.Logger) (store.Survivor, error) {
	target, _, err := restorable(ctx, cfg)
	if err != nil {
		return store.Survivor{}, err
	}
	return store.Inspect(target, log)
}

// others are the other servers of a cluster.
type others struct {
	names    []string
	majority int
}

func (o others) with(r store.Restored) Restored {
	return Restored{Restored: r, Others: o.names, Majority: o.majority}
}

// restorable returns the etcd whose data directory is to be filled. It fails if another server of the cluster
// runs with data: the two would be different clusters.
func restorable(ctx context.Context, cfg config.Config) (target store.EmbeddedConfig, o others, err error) {
	if len(cfg.EtcdEndpoints) > 0 {
		return target, o, errors.New("these settings have an external etcd (etcd-endpoints), which etcdutl snapshot restore restores")
	}
	target = store.EmbeddedConfig{Dir: cfg.DataDir, QuotaBytes: int64(cfg.EmbeddedEtcdQuota)}
	if cfg.Cluster == nil {
		return target, o, nil
	}
	own, list, err := Servers(cfg)
	if err != nil {
		return target, o, err
	}
	security, err := secureMembers(cfg, list)
	if err != nil {
		return target, o, err
	}
	server, _ := list.Get(own)
	target.Peers = &store.Peers{Name: own, Peer: server.Peer, Client: server.Client, TLS: security.etcd()}
	o.majority = list.Majority()
	answers := cluster.Ask(ctx, list, security.client)
	for _, s := range list {
		if s.Name != own {
			o.names = append(o.names, s.Name)
		}
		if a := answers[s.Name]; a.State == cluster.Member {
			return target, o, fmt.Errorf("%s runs with the data of cluster %x: stop all servers first", s.Name, a.Cluster)
		}
	}
	return target, o, nil
}
