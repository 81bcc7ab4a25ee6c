package cacher

import "sync/atomic"

// Counts say what a cacher has done since it was made. They never fall.
type Counts struct {
	// Changes is how many changes were applied, among them the differences that
	// relists found. Those that filling began with are not changes.
	Changes int64

	// Fills is how often everything was read anew because there was nothing to go on
	// from: at start, in a new epoch, after a mismatch.
	Fills int64

	// Relists is how often the state was listed again because the store had
	// compacted what came next.
	Relists int64

	// Interruptions is how often the store was lost and tried again after a pause.
	Interruptions int64

	// Mismatches is how often the state was found to differ from the store.
	Mismatches int64

	// Opaque is how many values the codec could not decode, each key and revision
	// counted once. The values of 1,000 keys are logged as well.
	Opaque int64
}

type counts struct {
	changes, fills, relists, interruptions atomic.Int64
}

// Counts returns what the cacher has done so far.
func (c *Cacher) Counts() Counts {
	return Counts{
		Changes:       c.counts.changes.Load(),
		Fills:         c.counts.fills.Load(),
		Relists:       c.counts.relists.Load(),
		Interruptions: c.counts.interruptions.Load(),
		Mismatches:    c.mismatches.Load(),
		Opaque:        c.opaque.count.Load(),
	}
}
