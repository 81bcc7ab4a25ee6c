package embedded

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"github.com/google/uuid"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// Config configures an etcd member in this process. Dir is required.
type Config struct {
	Dir string // data directory; belongs to one process at a time

	// Unlock releases the lock of Dir, which the caller holds and [Start] takes over, even if it fails. If it is nil,
	// Start locks Dir.
	Unlock func() error

	// ListenClient is the address of etcd's own API, as host:port or URL. By default
	// etcd opens no socket.
	ListenClient string

	QuotaBytes          int64         // size at which the database refuses writes; default 2 GiB
	CompactionRetention time.Duration // how much history etcd keeps; default 1 h
	MaxTransactionOps   int           // number of operations of a transaction that etcd accepts; default 128
	MaxRequestBytes     int           // size of the largest request that etcd accepts; default 1.5 MiB

	// Peers makes the etcd a member of a cluster of several; nil: it has no others.
	Peers *Peers

	// UnsafeNoFsync makes writes and the start fast. A crash of the machine then loses
	// data, so it is for tests only.
	UnsafeNoFsync bool
}

// Etcd returns the configuration of etcd itself. Without Peers, it is that of a cluster with one member, which no other
// can join because it does not listen for peers. By default it does not listen for clients either.
func (cfg Config) Etcd(log *zap.Logger) (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name = directory.SingleName
	c.Dir = cfg.etcdDir()
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	// etcd derives the cluster id from the member's peer URL, which is always the
	// same, and from this token. It reads the token only in a new directory, so each
	// directory has an id of its own and keeps it.
	c.InitialClusterToken = uuid.NewString()
	c.InitialCluster = c.InitialClusterFromName(c.Name)
	if cfg.ListenClient != "" {
		u, err := clientURL(cfg.ListenClient)
		if err != nil {
			return nil, err
		}
		c.ListenClientUrls, c.AdvertiseClientUrls = []url.URL{*u}, []url.URL{*u}
	}
	c.SnapshotCatchUpEntries = catchUpEntries
	c.MaxWalFiles = 0 // raftSnapshots removes them
	c.QuotaBackendBytes = cmp.Or(cfg.QuotaBytes, 2<<30)
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = cmp.Or(cfg.CompactionRetention, time.Hour).String()
	c.MaxTxnOps = cmp.Or(uint(cfg.MaxTransactionOps), embed.DefaultMaxTxnOps)
	c.MaxRequestBytes = cmp.Or(uint(cfg.MaxRequestBytes), embed.DefaultMaxRequestBytes)
	if cfg.UnsafeNoFsync {
		c.UnsafeNoFsync = true
		// The only member waits for an election timeout before it elects itself. The
		// default is a second, which would be most of the time of many tests. With an old
		// log, etcd panics if the timeout ends while it applies the log: it may drop
		// entries from memory before raft knows that they are applied.
		if !wal.Exist(datadir.ToWALDir(c.Dir)) {
			c.TickMs, c.ElectionMs = 10, 50
		}
	}
	if cfg.Peers != nil {
		if err := cfg.Peers.configure(c, log); err != nil {
			return nil, err
		}
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c, nil
}

// etcdDir returns the data directory of etcd itself.
func (cfg Config) etcdDir() string { return directory.Etcd(cfg.Dir) }

func clientURL(listen string) (*url.URL, error) {
	if !strings.Contains(listen, "://") {
		listen = "http://" + listen
	}
	u, err := url.Parse(listen)
	if err != nil {
		return nil, fmt.Errorf("parse the listen address of embedded etcd: %w", err)
	}
	return u, nil
}
