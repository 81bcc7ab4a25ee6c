package embedded

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"

	"github.com/fanoutd/fanoutd/internal/cluster/manage"
)

// otherMembers are connections to the client ports of other members, for questions of operators. They are opened when
// they are needed.
type otherMembers struct {
	tls TLSFiles

	mu     sync.Mutex
	open   map[uint64]otherMember // guarded by mu
	closed bool                   // guarded by mu
}

type otherMember struct {
	url  string
	conn *grpc.ClientConn
}

// The times after which a connection is broken whose member does not answer. etcd allows a question each five seconds.
const (
	keepaliveTime    = 10 * time.Second
	keepaliveTimeout = 10 * time.Second
)

// errNotStarted means that a member has no addresses, because it has never been started.
var errNotStarted = errors.New("it has never been started")

// to returns a connection to a member.
func (o *otherMembers) to(m manage.Member) (*grpc.ClientConn, error) {
	if len(m.ClientURLs) == 0 {
		return nil, errNotStarted
	}
	at := m.ClientURLs[0]
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return nil, errStopped
	}
	if known, ok := o.open[m.ID]; ok {
		if known.url == at {
			return known.conn, nil
		}
		_ = known.conn.Close() // it leads to an old address
		delete(o.open, m.ID)
	}
	conn, err := o.connect(at)
	if err != nil {
		return nil, err
	}
	if o.open == nil {
		o.open = map[uint64]otherMember{}
	}
	o.open[m.ID] = otherMember{at, conn}
	return conn, nil
}

// connect returns a connection to a client URL. It does not wait until it is open.
func (o *otherMembers) connect(at string) (*grpc.ClientConn, error) {
	u, err := url.Parse(at)
	if err != nil {
		return nil, fmt.Errorf("client URL of a member: %w", err)
	}
	security := insecure.NewCredentials()
	if u.Scheme == "https" {
		var files *tls.Config
		if files, err = o.tls.Client(); err != nil {
			return nil, fmt.Errorf("configure TLS to a member: %w", err)
		}
		security = credentials.NewTLS(files)
	}
	patience := backoff.DefaultConfig
	patience.MaxDelay = time.Second // so that a member that is back is noticed
	options := append(o.tls.authority(), grpc.WithTransportCredentials(security), grpc.WithNoProxy(), grpc.WithDisableServiceConfig(),
		// A defragmentation takes as long as it takes, so only this ends it if the machine has lost its power.
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveTime, Timeout: keepaliveTimeout}),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: patience, MinConnectTimeout: questionTimeout}))
	conn, err := grpc.NewClient("dns:///"+u.Host, options...)
	if err != nil {
		return nil, fmt.Errorf("connect to a member: %w", err)
	}
	return conn, nil
}

// keep closes the connections to members that are not in the list any more.
func (o *otherMembers) keep(list []*pb.Member) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for id, one := range o.open {
		if !slices.ContainsFunc(list, func(m *pb.Member) bool { return m.GetID() == id }) {
			_ = one.conn.Close()
			delete(o.open, id)
		}
	}
}

// close closes all connections, for good.
func (o *otherMembers) close() {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	o.keep(nil)
}
