package peer

import (
	"context"
	"fmt"
	"path/filepath"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// etcd drives etcd without a proxy.
func etcd(ctx context.Context, p *Peer, o Options) error {
	address, err := p.store(ctx, o)
	p.Address = address
	return err
}

// grpcProxy drives etcd's own proxy, which shares a watch of etcd among equal watches.
func grpcProxy(ctx context.Context, p *Peer, o Options) error {
	store, err := p.store(ctx, o)
	if err != nil {
		return err
	}
	if p.Address, err = freeAddress(); err != nil {
		return err
	}
	return p.run(ctx, "grpc-proxy", p.Address, o.Self, CommandEtcd, "grpc-proxy", "start",
		"--endpoints", store, "--listen-addr", p.Address, "--advertise-client-url", "",
		"--data-dir", filepath.Join(p.dir, "proxy"))
}

// store starts an etcd with one member, and a writer to it.
func (p *Peer) store(ctx context.Context, o Options) (address string, err error) {
	if address, err = freeAddress(); err != nil {
		return "", err
	}
	peers, err := freeAddress()
	if err != nil {
		return "", err
	}
	url, peerURL := "http://"+address, "http://"+peers
	err = p.run(ctx, "etcd", address, o.Self, CommandEtcd,
		"--name", "bench", "--data-dir", filepath.Join(p.dir, "etcd"),
		"--listen-client-urls", url, "--advertise-client-urls", url,
		"--listen-peer-urls", peerURL, "--initial-advertise-peer-urls", peerURL,
		"--initial-cluster", "bench="+peerURL,
		"--unsafe-no-fsync", "--log-level", "error",
	)
	if err != nil {
		return "", err
	}
	p.Metrics["etcd"] = url + "/metrics"
	writer, err := newEtcdWriter(ctx, address)
	if err != nil {
		return "", err
	}
	p.Writer, p.Positions, p.read = writer, writer, writer.read
	return address, nil
}

// etcdEmbedded drives an etcd as fanoutd runs it inside of its process, and nothing else.
func etcdEmbedded(ctx context.Context, p *Peer, o Options) error {
	address, err := freeAddress()
	if err != nil {
		return err
	}
	if err := p.run(ctx, "etcd-embedded", address, o.Self, CommandEmbedded, "--dir", filepath.Join(p.dir, "etcd"), "--listen", address); err != nil {
		return err
	}
	writer, err := newEtcdWriter(ctx, address)
	if err != nil {
		return err
	}
	p.Address, p.Writer, p.Positions, p.read = address, writer, writer, writer.read
	return nil
}

// empty drives the server of calls.ServeEmpty, which has no data.
func empty(ctx context.Context, p *Peer, o Options) (err error) {
	if p.Address, err = freeAddress(); err != nil {
		return err
	}
	return p.run(ctx, CommandEmpty, p.Address, o.Self, CommandEmpty, "--listen", p.Address)
}

// CommandEtcd is the command of fanoutbench that runs the etcd of go.mod with etcd's own
// flags. The other commands are similar.
const (
	CommandEtcd     = "etcd"
	CommandEmbedded = "etcd-embedded"
	CommandEmpty    = "grpc"
	CommandFloor    = "floor"
	CommandNATS     = "nats-server"
)

// etcdWriter writes to etcd.
type etcdWriter struct{ client *clientv3.Client }

// newEtcdWriter returns a writer through all these addresses.
func newEtcdWriter(ctx context.Context, addresses ...string) (*etcdWriter, error) {
	client, err := clientv3.New(clientv3.Config{Endpoints: addresses, Logger: zap.NewNop()})
	if err != nil {
		return nil, fmt.Errorf("connect to etcd: %w", err)
	}
	// A read waits until etcd has a leader.
	if _, err := client.Get(ctx, prefix); err != nil {
		client.Close()
		return nil, fmt.Errorf("read from etcd: %w", err)
	}
	return &etcdWriter{client}, nil
}

// Position is etcd's revision.
func (w *etcdWriter) Position(ctx context.Context) (load.Position, error) {
	response, err := w.client.Get(ctx, prefix)
	if err != nil {
		return load.Position{}, fmt.Errorf("read the revision of etcd: %w", err)
	}
	return load.Position{Revision: response.Header.Revision}, nil
}

// read makes a linearizable read of a key.
func (w *etcdWriter) read(ctx context.Context, key string) error {
	response, err := w.client.Get(ctx, prefix+key)
	if err == nil && len(response.Kvs) == 0 {
		err = fmt.Errorf("key %s does not exist", key)
	}
	if err != nil {
		return fmt.Errorf("read from etcd: %w", err)
	}
	return nil
}

// Write puts one value, or several in one transaction.
func (w *etcdWriter) Write(ctx context.Context, changes []Change) error {
	var puts []clientv3.Op
	for _, c := range changes {
		puts = append(puts, clientv3.OpPut(prefix+load.Key(c.Key), string(c.Value)))
	}
	var err error
	if len(puts) == 1 {
		_, err = w.client.Do(ctx, puts[0])
	} else {
		_, err = w.client.Txn(ctx).Then(puts...).Commit()
	}
	if err != nil {
		return fmt.Errorf("write to etcd: %w", err)
	}
	return nil
}

func (w *etcdWriter) Close() error { return w.client.Close() }
