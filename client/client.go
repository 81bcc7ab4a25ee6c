package client

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Client talks to one fanoutd server, or to several over the same etcd. Any number of
// goroutines may use it at once.
type Client struct {
	conn     *grpc.ClientConn
	reads    fanoutv1.FanoutServiceClient
	writes   fanoutv1.StoreServiceClient
	log      *slog.Logger
	observer Observer
	// renewable says that later requests may have other credentials.
	renewable bool
	// failed is the server that the next request avoids, because it was not available.
	failed atomic.Pointer[string]
	// renewsCertificate says that later connections may have another certificate.
	renewsCertificate bool
	subscriber        *fanoutv1.Subscriber // of all watches
	// requestTimeout is for requests whose context has no deadline; not positive: none.
	requestTimeout time.Duration
	// open ends when the client is closed.
	open    context.Context
	close   context.CancelFunc
	closing atomic.Bool // Close was called
	streams *streamPool
	absence *absence // nil without a notice

	mu        sync.Mutex
	shared    map[string]*sharedWatch // by identity; guarded by mu
	informers []informerDescriber     // those that run; guarded by mu
}

// New returns a client of the target, which is one of
//
//   - "host:port": all addresses that DNS has for the host;
//   - "host1:port,host2:port": several servers, which must share one etcd;
//   - a gRPC URI such as "dns:///host:port" or "unix:///run/fanoutd.sock".
//
// Requests and watches use the servers that can be reached in turn. New does not
// connect; the first request does. The caller must close the client.
//
// Without [WithTLS], [WithCertificateFiles] and [WithInsecure], the client uses TLS and
// requires a server certificate that the system trusts. Only targets on this machine
// (localhost, 127.0.0.0/8, ::1 and Unix sockets) get plaintext.
func New(target string, opts ...Option) (*Client, error) {
	to, err := parseTarget(target)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
	}
	c, err := newClient(to, opts)
	if err != nil {
		return nil, fmt.Errorf("target %q: %w", target, err)
	}
	return c, nil
}

func newClient(to target, opts []Option) (*Client, error) {
	s := settings{keepalive: DefaultKeepalive, requestTimeout: DefaultRequestTimeout}
	WithSubscriber("", nil)(&s)
	for _, o := range opts {
		o(&s)
	}
	c := &Client{log: s.log, observer: s.observer, renewable: s.renewable(), renewsCertificate: s.renewsCertificate(), subscriber: s.subscriber, requestTimeout: s.requestTimeout, shared: map[string]*sharedWatch{}}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	c.open, c.close = context.WithCancel(context.Background())
	interceptors := []grpc.DialOption{
		grpc.WithChainUnaryInterceptor(c.interceptors(&s)...),
		grpc.WithChainStreamInterceptor(c.closedStream),
	}
	conn, err := grpc.NewClient(to.uri, append(interceptors, s.dialOptions(to)...)...)
	if err != nil {
		c.close()
		return nil, err
	}
	c.streams = newStreamPool(c)
	c.conn, c.reads, c.writes = conn, fanoutv1.NewFanoutServiceClient(conn), fanoutv1.NewStoreServiceClient(conn)
	return c, nil
}

// Close ends all requests and watches of the client, and its connections. All later calls
// fail with [ErrClosed]. Any callback may call Close. It does not wait for informers: Run returns after
// the last call of a handler.
func (c *Client) Close() error {
	if !c.closing.CompareAndSwap(false, true) {
		return ErrClosed
	}
	c.close()
	if c.absence != nil {
		c.absence.close()
	}
	err := c.conn.Close()
	c.streams.close()
	return err
}

// Conn returns the connection, for services that this package does not cover.
// [ErrorOf] converts their errors. [Client.Close] closes the connection.
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Resource returns a handle of a resource. It does not check that the server has such
// a resource; the first request does.
func (c *Client) Resource(name string) *Resource { return &Resource{client: c, name: name} }

// Resource is a collection of objects, known by the name that it has in the
// configuration of the server. Any number of goroutines may use it at once.
type Resource struct {
	client     *Client
	name       string
	jsonValues bool
	message    string // of writes
}

// Name returns the name of the resource.
func (r *Resource) Name() string { return r.name }

// JSONValues returns the same resource with a different form of values: those of the codec
// "protobuf" are returned as JSON, with the content type application/json, as far as JSON can hold
// them completely. Other values, and what is written, are not affected.
func (r *Resource) JSONValues() *Resource {
	shown := *r
	shown.jsonValues = true
	return &shown
}
