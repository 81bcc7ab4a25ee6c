package check

// Filtered: every event is of the interest, of a change that happened, and is what
// that change is to the watcher: in its type, in what it shows of the object, with
// the object as it was before where that was asked for, and without values where
// they were not. A client that applies the events by key and forgets everything
// when a RESET begins has, wherever a stream leaves it, the state of the interest at
// its position.
func Filtered(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "filtered"}
	if h.Latest {
		mergedRight(h, t, &v)
	} else {
		eventsRight(h, t, &v)
	}
	deltaRight(h, t, &v)
	replayed(h, t, &v)
	return v.err()
}

// eventsRight checks every event by itself, of watchers that get all of them.
func eventsRight(h *History, t *Truth, v *verdict) {
	for _, a := range arrivals(walk(h)) {
		if a.mode == delta {
			continue
		}
		if !h.Scope.Contains(a.Object.Key) {
			v.broken(a.place, "%v is outside of the scope %v", a.Event, h.Scope)
			continue
		}
		problem := "never happened"
		if c := t.at[version{a.Object.Key, a.revision()}]; c != nil {
			problem = "is not for a watcher of " + h.interest()
			if want, ok := h.event(c); ok {
				problem = wrong(&want, a.Event)
			}
		}
		if problem != "" && !h.crosses(t, a.Event) {
			v.broken(a.place, "%v %s", a.Event, problem)
		}
	}
}

// replayed applies the history as clients do, and compares what comes of it.
func replayed(h *History, t *Truth, v *verdict) {
	for _, hasty := range []bool{false, true} {
		r := replica{hasty: hasty}
		run := -1
		steps := walk(h)
		for i := range steps {
			s := &steps[i]
			if s.run != run {
				run = s.run
				r.begin(nil)
				if s.mode != reset {
					// The watcher has the state from elsewhere.
					r.begin(h.state(t, s.from))
				}
			}
			r.apply(s)
			if leaves := i+1 == len(steps) || steps[i+1].opens; !leaves || !r.isAt(s.Position.Revision) {
				continue
			}
			if diff := differences(h.state(t, s.Position.Revision), r.state()); diff != "" {
				v.broken(s.place, "replayed to position %d the history gives another state: %s", s.Position.Revision, diff)
			}
		}
	}
}
