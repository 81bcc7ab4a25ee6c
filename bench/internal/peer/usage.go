package peer

import (
	"context"

	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// Usage is the resource usage of a server.
type Usage struct {
	process.Usage
	Goroutines float64 // 0 if it is unknown
}

// Usage returns the usage of each server, in the order of Servers.
func (p *Peer) Usage(ctx context.Context) ([]Usage, error) {
	all := make([]Usage, len(p.Servers))
	for i, s := range p.Servers {
		var err error
		if all[i].Goroutines, err = p.Goroutines(ctx, s.Name); err != nil {
			return nil, err
		}
		if all[i].Usage, err = s.Usage(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
