package dispatch

import "time"

// minStatedAge is the age below which messages state no age. Nearly all messages are sent as
// soon as the store has confirmed them, so they need no bytes for an age.
const minStatedAge = time.Second

// StatedAge returns what a message states as [object.Header.Age], if the server had
// everything at the time confirmed.
func StatedAge(confirmed, now time.Time) time.Duration {
	if age := now.Sub(confirmed); age >= minStatedAge {
		return age
	}
	return 0
}

// statedAge returns the age to state in a message that is sent now.
func (d *Dispatcher) statedAge(now time.Time) time.Duration {
	return StatedAge(d.cfg.Source.Confirmed(), now)
}
