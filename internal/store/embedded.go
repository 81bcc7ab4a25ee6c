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

// EmbeddedConfig says how to run an etcd member in this process. Dir is required.
type EmbeddedConfig struct {
	Dir string // data directory; belongs to one process at a time

	// ListenClient is where to serve etcd's own API, as host:port or URL. Default:
	// nowhere, no socket is opened.
	ListenClient string

	QuotaBytes          int64         // size at which the database refuses writes; default 2 GiB
	CompactionRetention time.Duration // how much history is kept; default 1 h
	MaxTransactionOps   int           // default 128

	// UnsafeNoFsync makes writes fast and a crash of the machine lose data. For
	// tests, which do not crash machines.
	UnsafeNoFsync bool
}

// OpenEmbedded starts an etcd member in this process and returns it when it
// serves. A directory that another process holds is an error at once.
func OpenEmbedded(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (*Store, error) {
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	s, err := startEmbedded(ctx, cfg, log)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err), unlock())
	}
	// What asking for the epoch of a new etcd writes is then behind us: the first
	// revisions of a store are no surprise to anybody.
	if _, err := s.epochs.ask(ctx, ""); err != nil {
		return nil, errors.Join(fmt.Errorf("learn the epoch of embedded etcd in %s: %w", cfg.Dir, err), s.Close(), unlock())
	}
	stopServer := s.stop
	s.stop = func() error { return errors.Join(stopServer(), unlock()) }
	return s, nil
}

func startEmbedded(ctx context.Context, cfg EmbeddedConfig, log *slog.Logger) (*Store, error) {
	var stopping atomic.Bool
	etcdConfig, err := cfg.etcd(zapLogger(log.With("component", "etcd"), &stopping))
	if err != nil {
		return nil, err
	}
	etcd, err := embed.StartEtcd(etcdConfig)
	if err != nil {
		return nil, err
	}
	stop := func() error {
		stopping.Store(true)
		etcd.Close()
		return nil
	}
	select {
	case <-etcd.Server.ReadyNotify():
	case err = <-etcd.Err():
	case <-etcd.Server.StopNotify():
		err = errors.New("it stopped before it was ready")
	case <-ctx.Done():
		err = ctx.Err()
	}
	if err == nil {
		err = makeSpace(ctx, etcd.Server, etcdConfig.QuotaBackendBytes, log)
	}
	if err != nil {
		return nil, errors.Join(err, stop())
	}
	client := v3client.New(etcd.Server)
	watches := adapter.WatchServerToWatchClient(v3rpc.NewWatchServer(etcd.Server))
	database := func() Database {
		backend := etcd.Server.Backend()
		return Database{Size: backend.Size(), InUse: backend.SizeInUse(), Quota: etcdConfig.QuotaBackendBytes}
	}
	return &Store{
		client: client, log: log, epochs: newEpochs(client, &connections{}, log), stop: stop, database: database,
		newWatcher: func() clientv3.Watcher { return clientv3.NewWatchFromWatchClient(watches, client) },
	}, nil
}

// etcd returns the configuration of a cluster of one member that nobody else can
// join: it listens for no peers, and by default for no clients either.
func (cfg EmbeddedConfig) etcd(log *zap.Logger) (*embed.Config, error) {
	c := embed.NewConfig()
	c.Name = "fanoutd"
	c.Dir = filepath.Join(cfg.Dir, "etcd")
	c.ListenPeerUrls, c.ListenClientUrls = nil, nil
	// The cluster id is made of the member's peer URL, which is the same
	// everywhere, and of this token. etcd looks at it only when the directory is
	// new, so every directory has an id of its own and keeps it.
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
	c.UnsafeNoFsync = cfg.UnsafeNoFsync
	c.ZapLoggerBuilder = embed.NewZapLoggerBuilder(log)
	return c, nil
}

func clientURL(listen string) (*url.URL, error) {
	if !strings.Contains(listen, "://") {
		listen = "http://" + listen
	}
	u, err := url.Parse(listen)
	if err != nil {
		return nil, fmt.Errorf("listen address of embedded etcd: %w", err)
	}
	return u, nil
}

// lockDir takes a data directory for this process. etcd locks its files, too, but
// a second process that opens them hangs until the first one ends; this lock fails
// at once and says who has it.
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
		holder, _ := os.ReadFile(path) // only to help; without it the message still says enough
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

// spareBytes is how much space there has to be before writes are taken again: for the
// largest request that etcd takes, several times.
const spareBytes = 8 << 20

// makeSpace has an embedded etcd take writes again that ran out of space, if there is
// some by now: the quota was raised, or what was deleted is compacted away and only has
// to be given back. etcd itself leaves both to an operator with etcdctl, who cannot
// reach this one.
func makeSpace(ctx context.Context, etcd *etcdserver.EtcdServer, quota int64, log *slog.Logger) error {
	full, err := etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_GET, Alarm: pb.AlarmType_NOSPACE})
	if err != nil {
		return fmt.Errorf("ask whether there is space: %w", err)
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
		log.Warn("the embedded etcd is full and refuses writes: delete what is not needed and start again when its history is compacted, or raise its quota",
			"bytes", size, "bytes_in_use", backend.SizeInUse(), "quota", quota)
		return nil
	}
	for _, alarm := range full.GetAlarms() {
		_, err := etcd.Alarm(ctx, &pb.AlarmRequest{Action: pb.AlarmRequest_DEACTIVATE, Alarm: alarm.GetAlarm(), MemberID: alarm.GetMemberID()})
		if err != nil {
			return fmt.Errorf("take writes again: %w", err)
		}
	}
	log.Info("the embedded etcd was full and takes writes again", "bytes_before", before, "bytes", backend.Size(), "quota", quota)
	return nil
}
