package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gofrs/flock"
	"github.com/google/uuid"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
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
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s, err := startEmbedded(ctx, cfg, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err), unlock())
	}
	// A new etcd gets its epoch record now. Later writes then have predictable
	// revisions.
	if _, err := s.epochs.determine(ctx, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("determine the epoch of embedded etcd in %s: %w", cfg.Dir, err), s.Close(ctx), unlock())
	}
	stopServer := s.stop
	s.stop = func(ctx context.Context) error { return errors.Join(stopServer(ctx), unlock()) }
	return s, nil
}

func startEmbedded(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (*Store, error) {
	var stopping atomic.Bool
	etcdConfig, err := cfg.etcd(zapLogger(log.With("component", "etcd"), &stopping))
	if err != nil {
		return nil, err
	}
	requests := trackClientRequests(etcdConfig)
	etcd, err := embed.StartEtcd(etcdConfig)
	if err != nil {
		return nil, err
	}
	stop := func(ctx context.Context) error {
		stopping.Store(true)
		defer requests.finish(ctx)()
		etcd.Close()
		return nil
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("etcd stopped before it was ready")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		err = recoverSpace(ctx, etcd.Server, etcdConfig.QuotaBackendBytes, log)
	}
	if err != nil {
		return nil, errors.Join(err, stop(ctx))
	}
	client := v3client.New(etcd.Server)
	watches := adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(etcd.Server))
	database := func() Database {
		backend := etcd.Server.Backend()
		return Database{Size: backend.Size(), InUse: backend.SizeInUse(), Quota: etcdConfig.QuotaBackendBytes}
	}
	return &Store{
		client: client, log: log, epochs: newEpochTracker(client, &connectionCounter{}, log), stop: stop, database: database,
		newWatcher: func() clientv3.Watcher { return clientv3.NewWatchFromWatchClient(watches, client) },
	}, nil
}

// etcd returns the configuration of a cluster with one member. No other member can
// join because it does not listen for peers. By default it does not listen for
// clients either.
func (cfg EmbeddedConfig) etcd(log *zap.Logger) (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name = "fanoutd"
	c.Dir = filepath.Join(cfg.Dir, "etcd")
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
	if cfg.MaxTransactionOps != 0 {
		c.MaxTxnOps = uint(cfg.MaxTransactionOps)
	}
	if cfg.UnsafeNoFsync {
		c.UnsafeNoFsync = true
		// The only member waits for an election timeout before it elects itself. The
		// default is a second, which would be most of the time of many tests.
		c.TickMs, c.ElectionMs = 10, 50
	}
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c, nil
}

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

// spareBytes is the free space that a full etcd needs before it accepts writes again:
// several times its largest request.
const spareBytes = 8 << 20

// recoverSpace makes an embedded etcd that ran out of space accept writes again if
// space is available: the quota was raised, or deleted data has been compacted and
// only a defragmentation is missing. In other setups an operator does this with
// etcdctl, which usually cannot reach an embedded etcd.
func recoverSpace(ctx context.Context, etcd *etcdserver.EtcdServer, quota int64, log *slog.Logger) error {
	full, err := etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		return fmt.Errorf("read the space alarm: %w", err)
	}
	if len(full.GetAlarms()) == 0 {
		return nil
	}
	backend := etcd.Backend()
	before := backend.Size()
	if before+spareBytes > quota && backend.SizeInUse()+spareBytes <= quota {
		if err := backend.Defrag(); err != nil {
			return fmt.Errorf("defragment: %w", err)
		}
	}
	if size := backend.Size(); size+spareBytes > quota {
		log.Warn("embedded etcd is full and refuses writes: delete objects and restart after the next compaction, or raise the quota",
			"bytes", size, "bytes_in_use", backend.SizeInUse(), "quota", quota)
		return nil
	}
	for _, alarm := range full.GetAlarms() {
		_, err := etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: alarm.GetAlarm(), MemberID: alarm.GetMemberID()})
		if err != nil {
			return fmt.Errorf("clear the space alarm: %w", err)
		}
	}
	log.Info("embedded etcd was full and accepts writes again", "bytes_before", before, "bytes", backend.Size(), "quota", quota)
	return nil
}
