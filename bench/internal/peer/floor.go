package peer

import "context"

// floor is watched by those who count frames only; see the package floor.
func floor(ctx context.Context, p *Peer, o Options) error {
	store, err := p.store(ctx, o)
	if err != nil {
		return err
	}
	if p.Address, err = freeAddress(); err != nil {
		return err
	}
	return p.run(ctx, "floor", p.Address, o.Self, CommandFloor, "--etcd", store, "--listen", p.Address, "--prefix", prefix)
}
