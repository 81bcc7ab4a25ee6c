package client

import "time"

// recentPeak is the largest value that a number had within a period.
type recentPeak struct {
	period  time.Duration
	current int64
	// former has the earlier values that are larger than all later ones, so both n and until
	// are in order.
	former []formerValue
}

// formerValue is a value that counts until a time.
type formerValue struct {
	n     int64
	until time.Time
}

// set changes the number.
func (p *recentPeak) set(now time.Time, n int64) {
	if n < p.current && p.period > 0 {
		p.former = append(p.former, formerValue{p.current, now.Add(p.period)})
	}
	for len(p.former) > 0 && p.former[len(p.former)-1].n <= n {
		p.former = p.former[:len(p.former)-1]
	}
	p.current = n
}

// max returns the largest value of the period that ends now.
func (p *recentPeak) max(now time.Time) int64 {
	for len(p.former) > 0 && !p.former[0].until.After(now) {
		p.former = p.former[1:]
	}
	if len(p.former) > 0 {
		return p.former[0].n
	}
	return p.current
}

// falls returns when max becomes smaller if the number does not change, and false if it stays.
// Call it after max.
func (p *recentPeak) falls() (time.Time, bool) {
	if len(p.former) == 0 {
		return time.Time{}, false
	}
	return p.former[0].until, true
}
