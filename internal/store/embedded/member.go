package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/proxy/grpcproxy/adapter"
	"go.etcd.io/etcd/server/v3/storage/backend"
	"go.uber.org/zap"
	"google.golang.org/grpc"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/store/embedded/directory"
	"github.com/fanoutd/fanoutd/internal/store/embedded/process"
	"github.com/fanoutd/fanoutd/internal/store/etcdlog"
	"github.com/fanoutd/fanoutd/internal/store/leader"
)

// Member is a running etcd member in this process. Its methods may be called from any
// goroutine.
type Member struct {
	// The clients call etcd without a socket. Those of a member of several send writes to the leader's member.
	Client *clientv3.Client
	KV     pb.KVClient
	Leases pb.LeaseClient

	own         pb.KVClient          // this member, whichever one leads
	memberships pb.ClusterClient     // changes of members, without a socket
	maintenance pb.MaintenanceClient // without defragmentations
	others      otherMembers
	tls         TLSFiles

	etcd     *embed.Etcd
	disk     *diskGuard
	requests *clientRequests
	quota    int64
	leader   *leader.Client // of a member of several; nil: it has no others
	several  bool           // it is a member of several
	majority int            // of voters, before which it accepts no writes
	formed   atomic.Bool
	fatal    *process.FatalErrors
	failed   chan error
	log      *slog.Logger
	stopping *atomic.Bool
	unlock   func() error // of the data directory

	background     sync.WaitGroup
	stopBackground context.CancelFunc

	// defragmenting is the database of a member of several while it is defragmented. Its sizes can be read.
	defragmenting atomic.Pointer[backend.Backend]

	// space is held while the space of the database is changed, and while etcd is stopped.
	space sync.Mutex
}

// Start starts an etcd member and returns once it serves requests. It fails at once if
// another process uses the directory.
func Start(ctx context.Context, cfg Config, log *slog.Logger) (*Member, error) {
	unlock := cfg.Unlock
	if unlock == nil {
		var err error
		if unlock, err = directory.Lock(cfg.Dir); err != nil {
			return nil, err
		}
	}
	err := directory.CheckLayout(cfg.Dir)
	if err == nil {
		err = os.RemoveAll(filepath.Join(cfg.Dir, directory.Replaying)) // a copy that fanoutd recover has left when it was killed
	}
	if err != nil {
		return nil, errors.Join(err, unlock())
	}
	m := &Member{several: cfg.Peers != nil, fatal: process.NewFatalErrors(), failed: make(chan error, 1), log: log, stopping: new(atomic.Bool), unlock: unlock}
	m.fatal.KeepsSnapshots = !m.several
	context.AfterFunc(m.fatal.Happened, func() {
		m.failed <- fmt.Errorf("embedded etcd in %s failed: %w", cfg.Dir, m.fatal.First())
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
	options := []zap.Option{zap.WithFatalHook(m.fatal), zap.WithPanicHook(m.fatal)}
	if m.several {
		m.majority, m.tls, m.others.tls = cfg.Peers.Majority, cfg.Peers.TLS, cfg.Peers.TLS
	} else {
		m.formed.Store(true)
		options = append(options, zap.WrapCore(snapshots.wrap))
	}
	etcdConfig, err := cfg.Etcd(etcdlog.New(m.log.With("component", "etcd"), m.stopping, options...))
	if err != nil {
		return err
	}
	if m.disk, err = openDisk(cfg.Dir, etcdConfig.Dir, m.log); err != nil {
		return err
	}
	m.requests = trackClientRequests(etcdConfig, m.admit)
	known, setKnown := context.WithCancel(context.Background())
	defer setKnown()
	etcdConfig.GRPCAdditionalServerOptions = slices.Concat([]grpc.ServerOption{grpc.ChainUnaryInterceptor(m.await(known), m.answerMembers)},
		etcdConfig.GRPCAdditionalServerOptions)
	m.etcd, err = process.Start(ctx, etcdConfig, m.fatal, m.several)
	if err != nil {
		return err
	}
	server := m.etcd.Server
	m.Client = v3client.New(server)
	m.own = adapter.KvServerToKvClient(v3rpc.NewQuotaKVServer(server))
	m.KV = m.own
	m.Leases = adapter.LeaseServerToLeaseClient(v3rpc.NewQuotaLeaseServer(server))
	m.memberships = adapter.ClusterServerToClusterClient(v3rpc.NewClusterServer(server))
	m.maintenance = adapter.MaintenanceServerToMaintenanceClient(v3rpc.NewMaintenanceServer(server, nil))
	m.quota = etcdConfig.QuotaBackendBytes
	m.disk.begin(func() (file, inUse int64) { return m.backend().Size(), m.backend().SizeInUse() })
	setKnown()
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	m.stopBackground = stop
	m.background.Go(func() { m.disk.run(background) })
	if m.several {
		if err := m.followLeader(ctx, cfg.Peers); err != nil {
			return err
		}
		return m.During(func() error { return m.startAmongOthers(ctx, background, cfg.Peers) })
	}
	return m.During(func() error {
		if err := snapshots.begin(server); err != nil {
			return fmt.Errorf("read the raft snapshots: %w", err)
		}
		return m.recoverSpace(ctx)
	})
}

// await makes requests wait until the member is known to this process: etcd serves its clients before its start returns.
func (m *Member) await(known context.Context) grpc.UnaryServerInterceptor {
	return func(ctx context.Context, req any, _ *grpc.UnaryServerInfo, handler grpc.UnaryHandler) (any, error) {
		select {
		case <-known.Done():
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if m.etcd == nil { // its start has failed
			return nil, rpctypes.ErrGRPCStopped
		}
		return handler(ctx, req)
	}
}

// startAmongOthers does what a member of several does after its start. It returns once a majority has
// answered. Background is done when the member is closed.
func (m *Member) startAmongOthers(ctx, background context.Context, p *Peers) error {
	m.background.Go(func() { m.reportStop(background) })
	m.background.Go(func() { m.countSnapshots(background) })
	if err := m.awaitMajority(ctx); err != nil {
		return err
	}
	if err := m.takeAddress(ctx, p); err != nil {
		return err
	}
	m.background.Go(func() { m.becomeVoter(background) })
	m.background.Go(func() { m.leaveFullDisk(background) })
	return nil
}

// backend returns the database. That of a member of several is replaced by a snapshot of the leader.
func (m *Member) backend() backend.Backend {
	if b := m.defragmenting.Load(); b != nil {
		return *b
	}
	return m.etcd.Server.Backend()
}

// Failed returns a channel that receives an error if etcd cannot go on. Requests then wait
// until their contexts end. The caller closes the member.
func (m *Member) Failed() <-chan error { return m.failed }

// During calls a function that waits for etcd. If etcd fails, the function may never return:
// During then returns the reason, and leaves the goroutine of the function behind. The process
// is expected to exit.
func (m *Member) During(call func() error) error { return m.fatal.During(call) }

// Revision returns the revision of the store. It is at least as new as any write that was
// acknowledged before the call. Errors are [object.ErrUnavailable].
func (m *Member) Revision(ctx context.Context) (object.Revision, error) {
	// A read through etcd's API would wait for the same, and then search for a key.
	wait := m.etcd.Server.LinearizableReadNotify
	if m.leader != nil {
		wait = m.awaitReadable
	}
	if err := wait(ctx); err != nil {
		return 0, fmt.Errorf("%w: %w", object.ErrUnavailable, err)
	}
	return object.Revision(m.etcd.Server.KV().Rev()), nil
}

// recordOverhead is more than what etcd stores besides a key and its value.
const recordOverhead = 256

// Admit allows a write of so many puts, whose keys and values have so many bytes, or fails with
// [object.ErrNoSpace] or [*object.FormingError]. A write that only deletes has no puts.
func (m *Member) Admit(puts int, bytes int64) error {
	return m.admit(bytes + int64(puts)*recordOverhead)
}

// admit allows a write of so many bytes; a deletion has 0 bytes.
func (m *Member) admit(bytes int64) error {
	if err := m.checkFormed(); err != nil {
		return err
	}
	if m.several && !m.leads() {
		return nil // the leader's member admits it
	}
	return m.disk.admit(bytes)
}

// Close stops etcd. Watches of its own clients end at once; their other requests may finish
// until ctx is done. Close returns only after etcd has released its files, even if ctx is done
// earlier.
func (m *Member) Close(ctx context.Context) error {
	m.stopping.Store(true)
	m.HandOver()
	// The client has no connection. The only error is that of its context, which Close ends.
	_ = m.Client.Close()
	m.others.close()
	m.stopBackground()
	// If etcd has failed, some may wait for a goroutine that cannot go on.
	_ = m.During(func() error {
		if m.leader != nil {
			m.leader.Close()
		}
		m.background.Wait()
		return nil
	})
	if m.fatal.First() != nil {
		return m.unlock() // etcd would wait for the goroutine that failed
	}
	err := m.fatal.During(func() error {
		defer m.requests.finish(ctx)()
		m.space.Lock() // wait for a defragmentation, which waits for requests
		defer m.space.Unlock()
		if m.several && m.leads() {
			m.etcd.Server.HardStop() // nobody takes the leadership, and etcd would wait for 7 s
		}
		process.Close(m.etcd)
		return nil
	})
	return errors.Join(err, m.unlock())
}
