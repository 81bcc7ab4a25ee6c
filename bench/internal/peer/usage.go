package peer

import "github.com/fanoutd/fanoutd/bench/internal/process"

// Usage returns what each server has used until now, in the order of Servers.
func (p *Peer) Usage() ([]process.Usage, error) {
	all := make([]process.Usage, len(p.Servers))
	for i, s := range p.Servers {
		var err error
		if all[i], err = s.Usage(); err != nil {
			return nil, err
		}
	}
	return all, nil
}
