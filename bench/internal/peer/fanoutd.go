package peer

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// settings are fanoutd's. The limits that keep one client from taking all are off: all
// watchers are on one machine here. Nothing of what costs something is.
const settings = `
listen: %s
admin-listen: %s
etcd-endpoints: [%s]
log-level: error
max-connections: 0
max-connections-per-client: 0
max-connection-rate: 1000000
max-watchers: 0
max-watchers-per-client: 0
max-selectors: 0
max-selectors-per-client: 0
watch-time-limit: 0s
resources:
  - name: %s
    prefix: %s
    codec: %s
`

// fanoutd is the fanoutd of the folder above.
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
	config, err := p.file("fanoutd.yaml", fmt.Sprintf(settings, p.Address, admin, store, load.Resource, prefix, codec))
	if err != nil {
		return fmt.Errorf("configure fanoutd: %w", err)
	}
	p.Metrics["fanoutd"] = "http://" + admin + "/metrics"
	p.Profile = "http://" + admin + "/debug/pprof/"
	return p.run(ctx, "fanoutd", p.Address, o.Fanoutd, "--config", config)
}
