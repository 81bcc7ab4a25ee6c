package peer

import (
	"context"
	"fmt"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// settings is the configuration of fanoutd. The limits per client are off, because all
// watchers are on one machine. Everything that costs something is on.
const settings = `
listen: %s
admin-listen: %s
etcd-endpoints: [%s]
log-level: error
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
resources:
  - name: %s
    prefix: %s
    codec: %s
`

// window is the part of the configuration that sets the size of the window in changes,
// whatever their age and size.
const window = `    window: {min-events: %d, max-events: %d, max-size: 8GiB}
`

// fanoutd drives fanoutd.
func fanoutd(ctx context.Context, p *Peer, o Options) error {
	store, err := p.store(ctx, o)
	if err != nil {
		return err
	}
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
	text := fmt.Sprintf(settings, p.Address, admin, store, load.Resource, prefix, codec)
	if o.Window > 0 {
		text += fmt.Sprintf(window, o.Window, o.Window)
	}
	config, err := p.file("fanoutd.yaml", text)
	if err != nil {
		return fmt.Errorf("configure fanoutd: %w", err)
	}
	p.Metrics["fanoutd"] = "http://" + admin + "/metrics"
	p.Profile = "http://" + admin + "/debug/pprof/"
	p.Positions = positions{p.Address}
	return p.run(ctx, "fanoutd", p.Address, o.Fanoutd, "--config", config)
}

// positions reads positions from the fanoutd at an address.
type positions struct{ address string }

// Position returns the position of a list.
func (p positions) Position(ctx context.Context) (load.Position, error) {
	conn, err := grpc.NewClient("passthrough:///"+p.address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return load.Position{}, fmt.Errorf("connect to fanoutd: %w", err)
	}
	defer conn.Close()
	list, err := fanoutv1.NewFanoutServiceClient(conn).List(ctx, &fanoutv1.ListRequest{Resource: load.Resource, PageSize: 1})
	if err != nil {
		return load.Position{}, fmt.Errorf("read the position of fanoutd: %w", err)
	}
	return load.Position{Epoch: list.GetPosition().GetEpoch(), Revision: list.GetPosition().GetRevision()}, nil
}
