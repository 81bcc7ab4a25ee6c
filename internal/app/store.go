package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/cluster"
	"github.com/fanoutd/fanoutd/internal/cluster/manage"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/direct"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/metrics"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/store"
)

// Store is everything that the server needs of its store. Each part is declared where it is used.
// Another kind of store has its methods in a package of its own. Types of this file adapt it, and openStore opens it.
type Store interface {
	metrics.Store
	server.SpaceReclaimer
	manage.Etcd

	// Collection returns the objects of a resource, which the store keeps below the prefix. Values
	// encrypts and decrypts their values.
	Collection(resource, prefix string, values *crypt.Values) Collection

	// CheckRights returns an error if the store may not write what it needs besides objects.
	CheckRights(ctx context.Context) error

	// HandOver prepares a cluster for the end of this process.
	HandOver()

	// Unreachable reports whether the store has not been reached for a while. Failed returns a
	// channel that receives an error if the store cannot go on; it may be nil.
	Unreachable() bool
	Failed() <-chan error

	// Formed reports whether enough servers of a cluster vote, so that this one accepts writes. It stays
	// true. Without a cluster, it is true.
	Formed() bool

	// Close waits for requests of other clients of the store until ctx is done.
	Close(ctx context.Context) error
}

// Collection is everything that the server needs of the store of a resource.
type Collection interface {
	cacher.Store
	direct.Store
	backend.Store

	// KeepHistory makes the store keep the history of its writes. It is called first.
	KeepHistory() HistoryStore
}

// HistoryStore is everything that the server needs of the store of a history.
type HistoryStore interface {
	history.Store

	// Rewrite is the method of backend.Store for the records of the history.
	Rewrite(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error)

	// CheckRight returns an error if the store may not write the history. It writes nothing.
	CheckRight(ctx context.Context) error
}

// etcd is a [store.Store] as a Store.
type etcd struct{ *store.Store }

// asStore returns the result of opening an etcd.
func asStore(s *store.Store, err error) (Store, error) {
	if err != nil {
		return nil, err
	}
	return etcd{s}, nil
}

func (e etcd) Collection(resource, prefix string, values *crypt.Values) Collection {
	return collection{e.Store.Collection(resource, prefix, values)}
}

// collection is a [store.Collection] as a Collection.
type collection struct{ *store.Collection }

func (c collection) KeepHistory() HistoryStore { return c.Collection.KeepHistory() }

// withHistory is the largest request of an embedded etcd that keeps histories: what etcd accepts by
// default, twice, and the names of the records.
const withHistory = 2*1536<<10 + 256<<10

// requestBytes returns the size of the largest request of an embedded etcd; 0: etcd's default.
func requestBytes(cfg config.Config) int {
	if cfg.KeepsHistory() {
		return withHistory
	}
	return 0
}

// beginning is how the etcd of this server begins as a member of several.
type beginning struct {
	peers  *store.Peers
	look   *cluster.Observer // observes the other servers then
	unlock func() error      // releases the data directory
}

// beginEtcd decides how the etcd of this server begins. It waits for the other servers, and calls onWait when it
// changes for which ones. From before it reads the data directory, no other process may change it.
func beginEtcd(ctx context.Context, cfg config.Config, onWait func(cluster.Awaited), log *slog.Logger) (_ beginning, err error) {
	own, list, err := Servers(cfg)
	if err != nil {
		return beginning{}, err
	}
	security, err := secureMembers(cfg, list)
	if err != nil {
		return beginning{}, err
	}
	unlock, err := store.Lock(cfg.DataDir)
	if err != nil {
		return beginning{}, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, unlock())
		}
	}()
	directory, err := directoryOf(cfg)
	if err != nil {
		return beginning{}, err
	}
	server, _ := list.Get(own)
	peers := &store.Peers{
		Name: own, Peer: server.Peer, Client: server.Client, ListenPeer: listenAt(server.Peer, cfg.Cluster.Listen), ListenClient: listenAt(server.Client, cfg.Cluster.Listen),
		TLS: security.etcd(), Majority: list.Majority(),
	}
	join := func(ctx context.Context, id uint64, via []cluster.Server) (string, error) {
		members, err := peers.Add(ctx, id, clientsOf(via), peersOf(list), log)
		if _, ok := errors.AsType[*store.DataGoneError](err); ok {
			return "", &cluster.Refusal{Reason: err.Error()}
		}
		return members, err
	}
	begin, err := cluster.Await(ctx, cluster.Config{
		List: list, Name: own, DataDir: cfg.DataDir, Listen: peers.ListenPeer, ServerTLS: security.server, ClientTLS: security.client, Join: join, Log: log,
		Directory: directory, OnWait: onWait,
	})
	if err != nil {
		return beginning{}, fmt.Errorf("cluster: %w", err)
	}
	peers.Join = begin.Members
	return beginning{peers, cluster.NewObserver(list, own, begin.Cluster, security.client), unlock}, nil
}

// etcd returns the files and names for etcd.
func (s *memberSecurity) etcd() store.TLSFiles {
	return store.TLSFiles{
		CA: s.files.CA, Cert: s.files.Cert, Key: s.files.Key, ServerName: s.names.ServerName, AllowedNames: s.names.AllowedNames,
	}
}

// directoryOf returns what the data directory contains.
func directoryOf(cfg config.Config) (cluster.Directory, error) {
	d, err := store.Identify(cfg.DataDir)
	if err != nil {
		return cluster.Directory{}, fmt.Errorf("read the data directory: %w", err)
	}
	return cluster.Directory{Path: d.Path, Cluster: d.Cluster, Name: d.Name, Single: d.Single}, nil
}

// checkOwner fails for root if the data directory belongs to another user, who could not read a file in it.
func checkOwner(cfg config.Config) error { return store.CheckOwner(cfg.DataDir) }

// adviseReplacement adds what to do to an error of a server whose files are damaged or have other data than those of
// others.
func adviseReplacement(cfg config.Config, err error) error {
	_, damaged := errors.AsType[*store.DamagedError](err)
	_, different := errors.AsType[*store.DifferentDataError](err)
	if !damaged && !different {
		return err
	}
	own, _, listErr := Servers(cfg)
	if listErr != nil {
		return err
	}
	dir := filepath.Join(cfg.DataDir, "etcd")
	replace := fmt.Sprintf("run fanoutctl cluster replace %s, move the data of this server away (mv %s %s.old), and start it again", own, dir, dir)
	if damaged {
		return fmt.Errorf("%w. While a majority of the other servers runs, no backup is needed: %s", err, replace)
	}
	return fmt.Errorf("%w. The log says which servers have other data than this one (\"found different hash values\"). If they are a majority, %s. "+
		"Otherwise stop these, start this one again, and replace them in the same way", err, replace)
}

// openStore opens the store. Begin makes an embedded etcd a member of several; its zero value does not.
func openStore(ctx context.Context, cfg config.Config, begin beginning, log *slog.Logger) (Store, error) {
	if len(cfg.EtcdEndpoints) == 0 {
		return asStore(store.OpenEmbedded(ctx, store.EmbeddedConfig{
			Peers:               begin.peers,
			Dir:                 cfg.DataDir,
			Unlock:              begin.unlock,
			ListenClient:        cfg.EmbeddedEtcdListen,
			QuotaBytes:          int64(cfg.EmbeddedEtcdQuota),
			CompactionRetention: time.Duration(cfg.EmbeddedEtcdRetention),
			MaxTransactionOps:   cfg.MaxTransactionOperations,
			MaxRequestBytes:     requestBytes(cfg),
			UnsafeNoFsync:       cfg.EmbeddedEtcdUnsafe,
		}, log))
	}
	return asStore(store.Dial(ctx, store.ExternalConfig{
		Endpoints:   cfg.EtcdEndpoints,
		DialTimeout: time.Duration(cfg.EtcdDialTimeout),
		CAFile:      cfg.EtcdCAFile,
		CertFile:    cfg.EtcdCertFile,
		KeyFile:     cfg.EtcdKeyFile,
		ServerName:  cfg.EtcdServerName,
		Username:    cfg.EtcdUsername,
		Password:    string(cfg.EtcdPassword),

		MaxTransactionOps: cfg.MaxTransactionOperations,
	}, log))
}
