package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/fileutil"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.etcd.io/etcd/server/v3/storage/datadir"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/etcdlog"
)

// Member is a running etcd member in this process. Its methods may be called from any
// goroutine.
type Member struct {
	// The clients call etcd without a socket.
	Client *clientv3.Client
	KV     pb.KVClient
	Leases pb.LeaseClient

	etcd     *embed.Etcd
	backend  backend.Backend // of etcd; a single member never gets another one
	disk     *diskGuard
	requests *clientRequests
	quota    int64
	fatal    *fatalErrors
	failed   chan error
	log      *slog.Logger
	stopping *atomic.Bool
	unlock   func() error // of the data directory

	background     sync.WaitGroup
	stopBackground context.CancelFunc

	// space is held while the space of the database is changed, and while etcd is stopped.
	space sync.Mutex
}

// Start starts an etcd member and returns once it serves requests. It fails at once if
// another process uses the directory.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Member, error) {
	if fileutil.Exist(datadir.ToMemberDir(cfg.Dir)) && !fileutil.Exist(cfg.etcdDir()) {
		return nil, fmt.Errorf("%s is a data directory of etcd itself: move its contents to %s", cfg.Dir, cfg.etcdDir())
	}
	unlock, err := lockDir(cfg.Dir)
	if err != nil {
		return nil, err
	}
	m := &Member{fatal: newFatalErrors(), failed: make(chan error, 1), log: log, stopping: new(atomic.Bool), unlock: unlock}
	context.AfterFunc(m.fatal.happened, func() {
		m.failed <- fmt.Errorf("embedded etcd in %s failed: %w", cfg.Dir, m.fatal.first())
	})
	if err := m.start(ctx, cfg); err != nil {
		err = fmt.Errorf("start embedded etcd in %s: %w", cfg.Dir, err)
		if m.etcd == nil {
			return nil, errors.Join(err, unlock())
		}
		return nil, errors.Join(err, m.Close(ctx))
	}
	return m, nil
}

// start starts etcd. If it fails, etcd runs only if m.etcd is set.
func (m *Member) start(ctx context.Context, cfg Config) error {
	snapshots := &raftSnapshots{dir: cfg.etcdDir(), log: m.log}
	etcdConfig, err := cfg.etcd(etcdlog.New(m.log.With("component", "etcd"), m.stopping,
		zap.WithFatalHook(m.fatal), zap.WithPanicHook(m.fatal), zap.WrapCore(snapshots.wrap)))
	if err != nil {
		return err
	}
	if m.disk, err = openDisk(cfg.Dir, etcdConfig.Dir, m.log); err != nil {
		return err
	}
	m.requests = trackClientRequests(etcdConfig, m.disk.admit)
	m.etcd, err = startMember(ctx, func() (*embed.Etcd, error) { return startEtcd(etcdConfig) }, m.fatal, startLimit(etcdConfig.Dir))
	if err != nil {
		return err
	}
	server := m.etcd.Server
	m.Client = v3client.New(server)
	m.KV = adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(server))
	m.Leases = adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(server))
	m.backend, m.quota = server.Backend(), etcdConfig.QuotaBackendBytes
	m.disk.begin(func() (file, inUse int64) { return m.backend.Size(), m.backend.SizeInUse() })
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stopBackground = stop
	m.background.Go(func() { m.disk.run(background) })
	return m.During(func() error {
		if err := snapshots.begin(server); err != nil {
			return fmt.Errorf("read the raft snapshots: %w", err)
		}
		return m.recoverSpace(ctx)
	})
}

// Failed returns a channel that receives an error if etcd cannot go on. Requests then wait
// until their contexts end. The caller closes the member.
func (m *Member) Failed() <-chan error { return m.failed }

// During calls a function that waits for etcd. If etcd fails, the function may never return:
// During then returns the reason, and leaves the goroutine of the function behind. The process
// is expected to exit.
func (m *Member) During(call func() error) error { return m.fatal.during(call) }

// Revision returns the revision of the store. It is at least as new as any write that was
// acknowledged before the call. Errors are [object.ErrUnavailable].
func (m *Member) Revision(ctx context.Context) (object.Revision, error) {
	// A read through etcd's API would wait for the same, and then search for a key.
	if err := m.etcd.Server.LinearizableReadNotify(ctx); err != nil {
		return 0, fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	}
	return object.Revision(m.etcd.Server.KV().Rev()), nil
}

// recordOverhead is more than what etcd stores besides a key and its value.
const recordOverhead = 256

// Admit allows a write of so many puts, whose keys and values have so many bytes, or fails with
// [object.ErrNoSpace]. A write that only deletes has no puts.
func (m *Member) Admit(puts int, bytes int64) error {
	return m.disk.admit(bytes + int64(puts)*recordOverhead)
}

// Close stops etcd. Watches of its own clients end at once; their other requests may finish
// until ctx is done. Close returns only after etcd has released its files, even if ctx is done
// earlier.
func (m *Member) Close(ctx context.Context) error {
	m.stopping.Store(true)
	// The client has no connection. The only error is that of its context, which Close ends.
	_ = m.Client.Close()
	m.stopBackground()
	m.background.Wait()
	if m.fatal.first() != nil {
		return m.unlock() // etcd would wait for the goroutine that failed
	}
	err := m.fatal.during(func() error {
		defer m.requests.finish(ctx)()
		m.space.Lock() // wait for a defragmentation, which waits for requests
		defer m.space.Unlock()
		m.etcd.Close()
		return nil
	})
	return errors.Join(err, m.unlock())
}
