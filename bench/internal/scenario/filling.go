package scenario

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// largestBatch is the number of operations that etcd accepts in a transaction.
const largestBatch = 128

// largestFill is the number of bytes of the values in a transaction that fills a store. The record of a
// history has them once more, and etcd accepts 1.5 MiB.
const largestFill = 512 << 10

// batch returns how many objects a transaction writes that fills a store.
func (p *Parameters) batch() int {
	return max(1, min(largestBatch, largestFill/max(p.ValueSize, 1)))
}

// prefill writes the objects that never change later and fills the window with changes. It
// waits until the server has them. Later watchers do not receive these changes.
func (w *writer) prefill(ctx context.Context, system *peer.Peer) error {
	p := w.parameters
	if p.Objects == 0 && p.Window == 0 {
		return nil
	}
	var others []peer.Change
	for i := range p.Objects {
		key := p.Keys + i
		others = append(others, peer.Change{Key: key, Value: p.value(key, blank)})
	}
	for changes := range slices.Chunk(others, p.batch()) {
		if err := w.store.Write(ctx, changes); err != nil {
			return fmt.Errorf("write the objects that never change: %w", err)
		}
	}
	for written := 0; written < p.Window; written += p.Keys {
		if err := w.fill(ctx); err != nil {
			return err
		}
	}
	if system.Positions == nil {
		return nil
	}
	// The position comes from a linearizable read, so it covers all writes.
	if _, err := system.Positions.Position(ctx); err != nil {
		return fmt.Errorf("wait for the objects that never change: %w", err)
	}
	return nil
}

// blank returns a value without a stamp, which no watcher counts.
func blank(size int) []byte { return bytes.Repeat([]byte("x"), max(size, 0)) }

// fill writes every key once.
func (w *writer) fill(ctx context.Context) error {
	all := make([]int, w.parameters.Keys)
	for i := range all {
		all[i] = i
	}
	for keys := range slices.Chunk(all, w.parameters.batch()) {
		if err := w.put(ctx, keys); err != nil {
			return fmt.Errorf("fill the store: %w", err)
		}
	}
	return nil
}

// config returns the configuration of watchers that start now. They have seen all writes,
// or all except the last change of each key if they begin with the state.
func (w *writer) config(address string) load.Config {
	c := w.parameters.load(address)
	if w.seen = int(w.written[0]); c.Snapshot && w.seen > 0 {
		w.seen--
	}
	c.Seen = w.seen
	return c
}
