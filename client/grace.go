package client

import "time"

// closeGrace is how long an end waits for callbacks that still run.
const closeGrace = 10 * time.Second

// endsInTime reports whether a channel is closed within closeGrace.
func endsInTime(ended <-chan struct{}) bool {
	select {
	case <-ended:
		return true
	default:
	}
	timer := time.NewTimer(closeGrace)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C:
		return false
	}
}
