package client

import (
	"context"
	"fmt"
	"log/slog"

	"google.golang.org/grpc"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Client is a connection to one fanoutd, or to several that have the same etcd. It
// may be used by several goroutines at once.
type Client struct {
	conn   *grpc.ClientConn
	reads  fanoutv1.FanoutServiceClient
	writes fanoutv1.StoreServiceClient
	log    *slog.Logger
	// renewable says that requests show credentials that may be replaced.
	renewable bool
	// open ends when the client is closed.
	open  context.Context
	close context.CancelFunc
}

// New returns a client of the target, which is one of
//
//   - "host:port": all addresses that DNS has for the host;
//   - "host1:port,host2:port": several servers;
//   - a URI of gRPC's, such as "dns:///host:port" or "unix:///run/fanoutd.sock".
//
// Requests and watches take turns over the servers that can be reached. New does
// not wait for a connection; the first request does. The client must be closed.
//
// Without [WithTLS], [WithCertificateFiles] and [WithInsecure] connections are
// encrypted, and the server's certificate must be one that the system trusts; only a
// target of this machine (localhost, 127.0.0.0/8, ::1 or a Unix socket) is talked to in
// plaintext.
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
	s := settings{keepalive: DefaultKeepalive}
	for _, o := range opts {
		o(&s)
	}
	conn, err := grpc.NewClient(to.uri, s.dialOptions(to)...)
	if err != nil {
		return nil, err
	}
	c := &Client{
		conn: conn, reads: fanoutv1.NewFanoutServiceClient(conn), writes: fanoutv1.NewStoreServiceClient(conn),
		log: s.log, renewable: s.renewable(),
	}
	c.open, c.close = context.WithCancel(context.Background())
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// Close ends everything that uses the client.
func (c *Client) Close() error {
	c.close()
	return c.conn.Close()
}

// Conn returns the connection, for services of the server that this package does
// not know. It is closed by [Client.Close].
func (c *Client) Conn() grpc.ClientConnInterface { return c.conn }

// Resource returns a handle of a resource. Whether the server has it shows with the
// first request.
func (c *Client) Resource(name string) *Resource { return &Resource{client: c, name: name} }

// Resource is a collection of objects, by the name that the configuration of the
// server gives it. It may be used by several goroutines at once.
type Resource struct {
	client *Client
	name   string
}

// Name returns the name of the resource.
func (r *Resource) Name() string { return r.name }
