package scenario

import (
	"bytes"
	"context"
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
)

// largestBatch is what a transaction of etcd takes.
const largestBatch = 128

// surround writes the objects that nobody writes later, and changes until the window is
// full, and returns when the server has taken them. The changes are behind those who come
// afterwards.
func (w *writing) surround(ctx context.Context, system *peer.Peer) error {
	p := w.parameters
	if p.Objects == 0 && p.Window == 0 {
		return nil
	}
	var others []peer.Change
	for i := range p.Objects {
		key := p.Keys + i
		others = append(others, peer.Change{Key: key, Value: p.value(key, blank)})
	}
	for changes := range slices.Chunk(others, largestBatch) {
		if err := w.writer.Write(ctx, changes); err != nil {
			return fmt.Errorf("write the objects that stay: %w", err)
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
	// The position is that of a read that sees every write until now.
	if _, err := system.Positions.Position(ctx); err != nil {
		return fmt.Errorf("wait for what was written first: %w", err)
	}
	return nil
}

// blank returns what is no event for anybody who counts.
func blank(size int) []byte { return bytes.Repeat([]byte("x"), max(size, 0)) }

// fill writes every key once.
func (w *writing) fill(ctx context.Context) error {
	all := make([]int, w.parameters.Keys)
	for i := range all {
		all[i] = i
	}
	for keys := range slices.Chunk(all, largestBatch) {
		if err := w.put(ctx, keys); err != nil {
			return fmt.Errorf("fill the store: %w", err)
		}
	}
	return nil
}

// config returns what the watching process is told about those who come now: they have
// seen all that was written, or all but the last change of each key where the state is
// what they begin with.
func (w *writing) config(address string) load.Config {
	c := w.parameters.load(address)
	if w.seen = int(w.written[0]); c.Snapshot && w.seen > 0 {
		w.seen--
	}
	c.Seen = w.seen
	return c
}
