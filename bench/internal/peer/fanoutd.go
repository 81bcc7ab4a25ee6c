package peer

import (
	"context"
	"fmt"
	"io"
	"path/filepath"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// settings is the configuration of fanoutd. Everything that costs something is on.
const settings = `
listen: %s
admin-listen: %s
log-level: error
resources:
  - name: %s
    prefix: %s
    codec: %s
`

// noLimits is the part of the configuration that turns limits off, because all watchers are on one
// machine.
const noLimits = `
max-connections: 0
max-connections-per-client: 0
max-connection-rate: 1000000
max-waiting-snapshots: 0
max-reset-rate: 0
max-reset-rate-per-client: 0
max-watchers: 0
max-watchers-per-client: 0
max-selectors: 0
max-selectors-per-client: 0
max-report-rate: 1000000
`

// window is the part of the configuration that sets the size of the window in changes,
// whatever their age and size.
const window = `    window: {min-events: %d, max-events: %d, max-size: 8GiB}
`

// history is the part of the configuration that keeps a history with the default limits.
const history = `    history: {}
`

// fanoutd drives fanoutd with an etcd of its own process.
func fanoutd(ctx context.Context, p *Peer, o Options) error {
	store, err := p.store(ctx, o)
	if err != nil {
		return err
	}
	return p.fanoutd(ctx, o, "fanoutd", fmt.Sprintf("etcd-endpoints: [%s]\n", store))
}

// fanoutdEmbedded drives fanoutd with an etcd inside of its process. That etcd calls fsync, which costs
// little if the data is in memory.
func fanoutdEmbedded(ctx context.Context, p *Peer, o Options) error {
	if err := p.fanoutd(ctx, o, "fanoutd-embedded", fmt.Sprintf("data-dir: %s\n", filepath.Join(p.dir, "fanoutd"))); err != nil {
		return err
	}
	writer, err := newFanoutdWriter(p.Address)
	p.Writer = writer
	return err
}

// fanoutd starts a fanoutd with the store of these settings, and waits until it accepts connections.
func (p *Peer) fanoutd(ctx context.Context, o Options, name, store string) error {
	if err := p.launchFanoutd(o, name, store); err != nil {
		return err
	}
	return await(ctx, p.Servers[len(p.Servers)-1], p.Address)
}

// launchFanoutd starts a fanoutd with the store of these settings. It becomes the front server.
func (p *Peer) launchFanoutd(o Options, name, store string) (err error) {
	if p.Address, err = freeAddress(); err != nil {
		return err
	}
	admin, err := freeAddress()
	if err != nil {
		return err
	}
	codec := "raw"
	if o.Config.Interest == load.InterestLabel {
		codec = "json"
	}
	text := fmt.Sprintf(settings, p.Address, admin, load.Resource, prefix, codec)
	if o.Window > 0 {
		text += fmt.Sprintf(window, o.Window, o.Window)
	}
	if o.History {
		text += history
	}
	if !o.DefaultLimits {
		text += noLimits
	}
	config, err := p.file(name+".yaml", text+store)
	if err != nil {
		return fmt.Errorf("configure fanoutd: %w", err)
	}
	p.Metrics[name] = "http://" + admin + "/metrics"
	p.Profile = "http://" + admin + "/debug/pprof/"
	p.Positions = positions{p.Address}
	p.read = positions{p.Address}.read
	return p.launch(name, p.Address, o.Fanoutd, "--config", config)
}

// fanoutdWriter writes through fanoutd.
type fanoutdWriter struct {
	conn  io.Closer
	store fanoutv1.StoreServiceClient
}

func newFanoutdWriter(address string) (*fanoutdWriter, error) {
	conn, err := dial(address)
	if err != nil {
		return nil, err
	}
	return &fanoutdWriter{conn, fanoutv1.NewStoreServiceClient(conn)}, nil
}

func dial(address string) (*grpc.ClientConn, error) {
	conn, err := grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, fmt.Errorf("connect to fanoutd: %w", err)
	}
	return conn, nil
}

// Write puts the values in one transaction.
func (w *fanoutdWriter) Write(ctx context.Context, changes []Change) error {
	request := &fanoutv1.TransactRequest{Resource: load.Resource}
	for _, c := range changes {
		request.Operations = append(request.Operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{
			Put: &fanoutv1.PutOperation{Key: load.Key(c.Key), Value: &fanoutv1.PutOperation_Data{Data: c.Value}},
		}})
	}
	if _, err := w.store.Transact(ctx, request); err != nil {
		return fmt.Errorf("write to fanoutd: %w", err)
	}
	return nil
}

func (w *fanoutdWriter) Close() error { return w.conn.Close() }

// positions reads positions from the fanoutd at an address.
type positions struct{ address string }

// Position returns the position of a list.
func (p positions) Position(ctx context.Context) (load.Position, error) {
	conn, err := dial(p.address)
	if err != nil {
		return load.Position{}, err
	}
	defer conn.Close()
	list, err := fanoutv1.NewFanoutServiceClient(conn).List(ctx, &fanoutv1.ListRequest{Resource: load.Resource, PageSize: 1})
	if err != nil {
		return load.Position{}, fmt.Errorf("read the position of fanoutd: %w", err)
	}
	return load.Position{Epoch: list.GetPosition().GetEpoch(), Revision: list.GetPosition().GetRevision()}, nil
}

// read makes a linearizable read of a key.
func (p positions) read(ctx context.Context, key string) error {
	conn, err := dial(p.address)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := fanoutv1.NewFanoutServiceClient(conn).Get(ctx, &fanoutv1.GetRequest{Resource: load.Resource, Key: key}); err != nil {
		return fmt.Errorf("read from fanoutd: %w", err)
	}
	return nil
}
