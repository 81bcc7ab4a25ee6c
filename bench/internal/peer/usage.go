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

// Usage returns the usage of each server, in the order of Servers. It asks the servers nothing, because
// their answers would cost CPU.
func (p *Peer) Usage() ([]Usage, error) {
	all := make([]Usage, len(p.Servers))
	for i, s := range p.Servers {
		var err error
		if all[i].Usage, err = s.Usage(); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// CountGoroutines asks each server for its goroutines, and adds them to the result of Usage.
func (p *Peer) CountGoroutines(ctx context.Context, all []Usage) (err error) {
	for i, s := range p.Servers {
		if all[i].Goroutines, err = p.metric(ctx, s.Name, "go_goroutines"); err != nil {
			return err
		}
	}
	return nil
}
