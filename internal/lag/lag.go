// Package lag orders watches by how far they are behind. The server sorts its own watches, and
// fanoutctl merges those of several servers.
package lag

import "cmp"

// Lag is how far a watch is behind.
type Lag struct {
	Blocked    bool    // the client does not read, so the watch cannot catch up
	NoPosition bool    // the client has received nothing, for an unknown time
	IsMinimum  bool    // the watch is at least Seconds behind
	Seconds    float64 // 0 if the lag is unknown
}

// Compare compares two lags; the larger one comes first.
func (l Lag) Compare(other Lag) int {
	return cmp.Or(
		trueFirst(l.Blocked, other.Blocked),
		trueFirst(l.NoPosition, other.NoPosition),
		trueFirst(l.IsMinimum, other.IsMinimum),
		cmp.Compare(other.Seconds, l.Seconds),
	)
}

// trueFirst compares two conditions; the one that holds comes first.
func trueFirst(x, y bool) int {
	switch {
	case x && !y:
		return -1
	case y && !x:
		return 1
	}
	return 0
}
