package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
)

// EmbeddedConfig configures an etcd member in this process. Dir is required.
type EmbeddedConfig struct {
	Dir string // data directory; belongs to one process at a time

	// ListenClient is the address of etcd's own API, as host:port or URL. By default
	// etcd opens no socket.
	ListenClient string

	QuotaBytes          int64         // size at which the database refuses writes; default 2 GiB
	CompactionRetention time.Duration // how much history etcd keeps; default 1 h
	MaxTransactionOps   int           // default 128

	// UnsafeNoFsync makes writes and the start fast. A crash of the machine then loses
	// data, so it is for tests only.
	UnsafeNoFsync bool
}

// OpenEmbedded starts an etcd member in this process and returns once the member
// serves requests. It fails at once if another process uses the directory.
func OpenEmbedded(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (*Store, error) {
	if fileutil.Exist(datadir.ToMemberDir(cfg.Dir)) && !fileutil.Exist(cfg.etcdDir()) {
		return nil, fmt.Errorf("%s is a data directory of etcd itself: move its contents to %s", cfg.Dir, cfg.etcdDir())
	}
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s, err := startEmbedded(ctx, cfg, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err), unlock())
	}
	stopServer := s.stop
	s.stop = func(ctx context.Context) error { return errors.Join(stopServer(ctx), unlock()) }
	return s, nil
}

func startEmbedded(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (*Store, error) {
	var stopping atomic.Bool
	fatal := newFatalErrors()
	snapshots := &raftSnapshots{dir: cfg.etcdDir()}
	etcdConfig, err := cfg.etcd(zapLogger(log.With("component", "etcd"), &stopping,
		zap.WithFatalHook(fatal), zap.WithPanicHook(fatal), zap.WrapCore(snapshots.wrap)))
	if err != nil {
		return nil, err
	}
	disk, err := openDisk(cfg.Dir, etcdConfig.Dir, log)
	if err != nil {
		return nil, err
	}
	requests := trackClientRequests(etcdConfig, disk.admit)
	etcd, err := startMember(ctx, func() (*embed.Etcd, error) { return startEtcd(etcdConfig) }, fatal, startLimit(etcdConfig.Dir))
	if err != nil {
		return nil, err
	}
	m := &member{
		server: etcd.Server, backend: etcd.Server.Backend(), disk: disk, quota: etcdConfig.QuotaBackendBytes, fatal: fatal, log: log,
	}
	disk.begin(func() (file, inUse int64) { return m.backend.Size(), m.backend.SizeInUse() })
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	purger := &walPurger{dir: etcdConfig.Dir, saved: &snapshots.saved, log: log}
	running.Go(func() { purger.run(background) })
	running.Go(func() { disk.run(background) })
	failed := make(chan error, 1)
	running.Go(func() {
		select {
		case <-fatal.happened:
			failed <- fmt.Errorf("embedded etcd in %s failed: %w", cfg.Dir, fatal.first)
		case <-background.Done():
		}
	})
	stop := func(ctx context.Context) error {
		stopping.Store(true)
		stopBackground()
		running.Wait()
		if fatal.any() {
			return nil // it would wait for the goroutine that failed
		}
		return fatal.during(func() error {
			defer requests.finish(ctx)()
			m.space.Lock() // wait for a defragmentation, which waits for requests
			defer m.space.Unlock()
			etcd.Close()
			return nil
		})
	}
	client := v3client.New(etcd.Server)
	s := &Store{
		client: client, log: log, epochs: newEpochTracker(client, &connectionCounter{}, log), stop: stop, member: m, failed: failed,
		watches:           adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(etcd.Server)),
		leases:            newLeaseCollector(client, log),
		grants:            adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(etcd.Server)),
		maxTransactionOps: int(etcdConfig.MaxTxnOps),
	}
	err = fatal.during(func() error {
		if err := snapshots.begin(etcd.Server); err != nil {
			return fmt.Errorf("read the raft snapshots: %w", err)
		}
		if err := m.recoverSpace(ctx); err != nil {
			return err
		}
		// A new etcd gets its epoch record now. Later writes then have predictable
		// revisions.
		if _, err := s.epochs.determine(ctx, ""); err != nil {
			return fmt.Errorf("determine the epoch: %w", err)
		}
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, s.Close(ctx))
	}
	s.leases.start()
	return s, nil
}

// etcd returns the configuration of a cluster with one member. No other member can
// join because it does not listen for peers. By default it does not listen for
// clients either.
func (cfg EmbeddedConfig) etcd(log *zap.Logger) (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name = "fanoutd"
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
	c.MaxWalFiles = 0 // walPurger removes them
	c.QuotaBackendBytes = cfg.QuotaBytes
	if c.QuotaBackendBytes == 0 {
		c.QuotaBackendBytes = 2 << 30
	}
	retention := cfg.CompactionRetention
	if retention == 0 {
		retention = time.Hour
	}
	c.AutoCompactionMode = embed.CompactorModePeriodic
	c.AutoCompactionRetention = retention.String()
	// Each write may need a read, see [transaction], and one of them may be nested.
	c.MaxTxnOps = uint(2*cmp.Or(cfg.MaxTransactionOps, defaultTransactionOps) + 1)
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
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c, nil
}

// etcdDir returns the data directory of etcd itself.
func (cfg EmbeddedConfig) etcdDir() string { return filepath.Join(cfg.Dir, "etcd") }

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

// lockDir locks a data directory for this process. etcd also locks its files, but a
// second process that opens them hangs until the first one ends. This lock fails at
// once and names the other process.
func lockDir(dir string) (unlock func() error, err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create data directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	lock := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	locked, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock data directory %s: %w", dir, err)
	}
	if !locked {
		holder, _ := os.ReadFile(path) // optional: the message is useful without it
		if pid := strings.TrimSpace(string(holder)); pid != "" {
			return nil, fmt.Errorf("data directory %s is in use by process %s; stop it or choose another directory", dir, pid)
		}
		return nil, fmt.Errorf("data directory %s is in use by another process; stop it or choose another directory", dir)
	}
	if err := os.WriteFile(path, []byte(strconv.Itoa(os.Getpid())+"\n"), 0o600); err != nil {
		_ = lock.Unlock()
		return nil, fmt.Errorf("write the lock of data directory %s: %w", dir, err)
	}
	return lock.Unlock, nil
}
