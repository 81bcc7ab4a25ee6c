package peer

import "context"

// floor drives the server of package floor, which only raw clients can watch.
func floor(ctx context.Context, p *Peer, o Options) error {
	store, err := p.store(ctx, o)
	if err != nil {
		return err
	}
	if p.Address, err = freeAddress(); err != nil {
		return err
	}
	p.Positions = nil // the floor has no history
	args := []string{CommandFloor, "--etcd", store, "--listen", p.Address, "--prefix", prefix}
	if o.Config.Snapshot {
		args = append(args, "--snapshot")
	}
	return p.run(ctx, "floor", p.Address, o.Self, args...)
}
