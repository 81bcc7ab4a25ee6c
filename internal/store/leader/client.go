package leader

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"google.golang.org/grpc"
)

// Raft is what the member of this process knows of the leader. It is a part of etcd's EtcdServer.
type Raft interface {
	MemberID() types.ID
	Leader() types.ID // 0: there is none

	// LeaderChangedNotify returns a channel that is closed when the next leader is known.
	LeaderChangedNotify() <-chan struct{}

	// StoppingNotify returns a channel that is closed when the member stops.
	StoppingNotify() <-chan struct{}
}

// Config configures a [Client].
type Config struct {
	Raft   Raft
	KV     pb.KVClient    // of the own member
	Leases pb.LeaseClient // of the own member

	// ClientURLs returns the client URLs of a member, or none if the own member does not know them.
	ClientURLs func(types.ID) []string

	TLS transport.TLSInfo // of connections to the other members, if their URLs are https

	ElectionTimeout time.Duration // of the cluster; default 1 s, as etcd's
}

// Client sends writes to the leader's member, and everything else to the own member. Its methods may be
// called from any goroutine.
type Client struct {
	pb.KVClient    // of the own member, for streams of reads
	pb.LeaseClient // of the own member; at a follower, etcd asks the leader for the time to live

	cfg Config
	log *slog.Logger
	tls *tls.Config

	leadership atomic.Pointer[leadership]
	moved      chan struct{} // capacity 1: the address of the leader may have changed

	connections map[types.ID]*connection // owned by follow; those of members that have been the leader

	closed    context.Context // done when Close has been called
	stop      context.CancelFunc
	following sync.WaitGroup

	sentAgain, notApplied, unknown atomic.Uint64
}

// New returns a client of a member that runs. The caller closes it before the member.
func New(ctx context.Context, cfg Config, log *slog.Logger) (*Client, error) {
	files, err := cfg.TLS.ClientConfig()
	if err != nil {
		return nil, fmt.Errorf("configure TLS to the leader of etcd: %w", err)
	}
	files.MinVersion = max(files.MinVersion, tls.VersionTLS12)
	if cfg.ElectionTimeout == 0 {
		cfg.ElectionTimeout = time.Second
	}
	c := &Client{
		KVClient: cfg.KV, LeaseClient: cfg.Leases, cfg: cfg, log: log, tls: files,
		moved: make(chan struct{}, 1), connections: map[types.ID]*connection{},
	}
	c.closed, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.begin(c.closed, true)
	c.following.Go(func() { c.follow(c.closed) })
	return c, nil
}

// Close closes all connections. The outcome of writes that wait for an answer is then unknown, and others
// are not applied.
func (c *Client) Close() {
	c.stop()
	c.following.Wait()
	for _, n := range c.connections {
		c.close(n)
	}
}

// Stats counts writes since the start.
type Stats struct {
	SentAgain  uint64 // attempts after the first one
	NotApplied uint64 // writes that ended with a NotAppliedError
	Unknown    uint64 // writes that ended with an UnknownOutcomeError
}

// Stats returns the counts.
func (c *Client) Stats() Stats {
	return Stats{c.sentAgain.Load(), c.notApplied.Load(), c.unknown.Load()}
}

// Range implements [pb.KVClient].
func (c *Client) Range(ctx context.Context, r *pb.RangeRequest, opts ...grpc.CallOption) (*pb.RangeResponse, error) {
	return read(ctx, c, pb.KVClient.Range, r, opts)
}

// Put implements [pb.KVClient].
func (c *Client) Put(ctx context.Context, r *pb.PutRequest, opts ...grpc.CallOption) (*pb.PutResponse, error) {
	return sendKV(ctx, c, pb.KVClient.Put, r, opts)
}

// DeleteRange implements [pb.KVClient].
func (c *Client) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest, opts ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	return sendKV(ctx, c, pb.KVClient.DeleteRange, r, opts)
}

// Txn implements [pb.KVClient]. The own member answers a transaction that only reads.
func (c *Client) Txn(ctx context.Context, r *pb.TxnRequest, opts ...grpc.CallOption) (*pb.TxnResponse, error) {
	if !writes(r) {
		return read(ctx, c, pb.KVClient.Txn, r, opts)
	}
	return sendKV(ctx, c, pb.KVClient.Txn, r, opts)
}

// Compact implements [pb.KVClient].
func (c *Client) Compact(ctx context.Context, r *pb.CompactionRequest, opts ...grpc.CallOption) (*pb.CompactionResponse, error) {
	return sendKV(ctx, c, pb.KVClient.Compact, r, opts)
}

// LeaseGrant implements [pb.LeaseClient].
func (c *Client) LeaseGrant(ctx context.Context, r *pb.LeaseGrantRequest, opts ...grpc.CallOption) (*pb.LeaseGrantResponse, error) {
	return sendLease(ctx, c, pb.LeaseClient.LeaseGrant, r, opts)
}

// LeaseRevoke implements [pb.LeaseClient].
func (c *Client) LeaseRevoke(ctx context.Context, r *pb.LeaseRevokeRequest, opts ...grpc.CallOption) (*pb.LeaseRevokeResponse, error) {
	return sendLease(ctx, c, pb.LeaseClient.LeaseRevoke, r, opts)
}

// Read calls read, which waits for the leader through the own member, and repeats it while there is no
// leader.
func (c *Client) Read(ctx context.Context, read func(context.Context) error) error {
	waits := attempts
	for {
		l := c.leadership.Load()
		if err := read(ctx); err == nil || c.stopping() || !c.wait(ctx, l, &waits) {
			return err
		}
	}
}

// writes reports whether a transaction has an operation that writes.
func writes(r *pb.TxnRequest) bool {
	return slices.ContainsFunc(slices.Concat(r.GetSuccess(), r.GetFailure()), func(op *pb.RequestOp) bool {
		nested := op.GetRequestTxn()
		return op.GetRequestPut() != nil || op.GetRequestDeleteRange() != nil || nested != nil && writes(nested)
	})
}
