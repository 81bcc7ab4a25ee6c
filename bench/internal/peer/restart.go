package peer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
)

// restartTimeout bounds the start of a server with data.
const restartTimeout = 2 * time.Minute

// StopFront ends the last server, with its data kept, so that Restart can start it again.
func (p *Peer) StopFront() { p.Servers[len(p.Servers)-1].Stop() }

// Restart starts the last server again after StopFront. It returns when the server has answered a
// linearizable read of a key.
func (p *Peer) Restart(ctx context.Context, key int) error {
	ctx, cancel := context.WithTimeout(ctx, restartTimeout)
	defer cancel()
	front := len(p.Servers) - 1
	if err := p.relaunch(front); err != nil {
		return err
	}
	server := p.Servers[front]
	if err := await(ctx, server, p.launches[front].address); err != nil {
		return err
	}
	retry := time.NewTicker(5 * time.Millisecond)
	defer retry.Stop()
	for {
		err := p.read(ctx, load.Key(key))
		if err == nil {
			return nil
		}
		select {
		case <-retry.C:
		case <-server.Exited():
			return fmt.Errorf("%s exited: %s", server.Name, server.Log())
		case <-ctx.Done():
			return fmt.Errorf("wait for a read from %s: %w: %s", server.Name, errors.Join(ctx.Err(), err), server.Log())
		}
	}
}
