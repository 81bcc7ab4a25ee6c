package dispatch

import "time"

// MinStatedAge is the age below which messages state no age. Nearly all messages are sent as
// soon as the store has confirmed them, so they need no bytes for an age.
const MinStatedAge = time.Second

// StatedAge returns what a message states as [object.Header.Age], if the server had
// everything at the time confirmed.
func StatedAge(confirmed, now time.Time) time.Duration {
	if age := now.Sub(confirmed); age >= MinStatedAge {
		return age
	}
	return 0
}

// statedAge returns the age to state in a bookmark that is sent now.
func (d *Dispatcher) statedAge(now time.Time) time.Duration {
	return StatedAge(d.cfg.Source.Confirmed(), now)
}

// liveAge returns the age to state in a live message that is made now. If more events wait for
// the watcher, the message leads to an old state: it has everything that the server knew when
// the first event of the message arrived, but perhaps nothing later.
func (d *Dispatcher) liveAge(now, firstArrived time.Time, more bool) time.Duration {
	confirmed := d.cfg.Source.Confirmed()
	if more && firstArrived.Before(confirmed) {
		confirmed = firstArrived
	}
	return StatedAge(confirmed, now)
}
