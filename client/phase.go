package client

import "fmt"

// Phase is the stage of a watch that an [Update] belongs to. A watch begins with a catch-up, which ends with
// PhaseSynced, and is live from then on. After an interruption, it catches up again.
//
//	start ──> Reset ──> Snapshot... ──> Synced ──> Live...
//	resume ─────────> CatchingUp... ──> Synced ──> Live...
type Phase uint8

// The phases of a watch.
const (
	// PhaseReset begins a new state, which replaces everything that the caller had. The events up to
	// the next update in PhaseSynced, all of them [Added], are the new state. Another PhaseReset may
	// come before that and start over.
	PhaseReset Phase = iota + 1
	// PhaseSnapshot continues the new state.
	PhaseSnapshot
	// PhaseCatchingUp brings changes that happened before the watch began, or while it was
	// interrupted.
	PhaseCatchingUp
	// PhaseSynced ends a catch-up: the caller has the state at Position.
	PhaseSynced
	// PhaseLive brings changes as they happen, or confirms the state.
	PhaseLive
)

// Complete reports whether the caller, with the events of the update applied, has the state
// exactly as it was at Position. It is false from PhaseReset until PhaseSynced.
func (p Phase) Complete() bool { return p >= PhaseCatchingUp }

// String returns the name of the phase, as in "SYNCED".
func (p Phase) String() string {
	switch p {
	case PhaseReset:
		return "RESET"
	case PhaseSnapshot:
		return "SNAPSHOT"
	case PhaseCatchingUp:
		return "CATCHING_UP"
	case PhaseSynced:
		return "SYNCED"
	case PhaseLive:
		return "LIVE"
	}
	return fmt.Sprintf("Phase(%d)", uint8(p))
}
