package check

// Filtered checks that every event belongs to the interest and to a change that happened,
// and that it shows the change as the watcher asked: its type, the object, the previous
// object if requested, and no value if values are omitted. A client that applies the events
// by key, and drops everything when a RESET begins, must have the state of the interest at
// its position wherever a stream ends.
func Filtered(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "filtered"}
	if h.Latest {
		checkMerged(h, t, &v)
	} else {
		checkEvents(h, t, &v)
	}
	checkDeltas(h, t, &v)
	checkReplicas(h, t, &v)
	return v.err()
}

// checkEvents checks every event of a watcher whose events are not merged.
func checkEvents(h *History, t *Truth, v *violations) {
	for _, a := range arrivals(walk(h)) {
		if a.mode == delta {
			continue
		}
		if !h.Scope.Contains(a.Object.Key) {
			v.add(a.place, "%v is outside of the scope %v", a.Event, h.Scope)
			continue
		}
		problem := "never happened"
		if c := t.at[version{a.Object.Key, a.Revision}]; c != nil {
			problem = "is not for a watcher of " + h.interest()
			if want, ok := h.event(c); ok {
				problem = wrong(&want, a.Event)
			}
		}
		if problem != "" {
			v.add(a.place, "%v %s", a.Event, problem)
		}
	}
}

// checkReplicas applies the history as clients do, and compares the result with the truth.
func checkReplicas(h *History, t *Truth, v *violations) {
	for _, immediate := range []bool{false, true} {
		r := replica{immediate: immediate}
		run := -1
		steps := walk(h)
		for i := range steps {
			s := &steps[i]
			if s.run != run {
				run = s.run
				r.begin(nil)
				if s.mode != reset {
					// The watcher had the state before the history begins.
					r.begin(h.state(t, s.from))
				}
			}
			r.apply(s)
			if leaves := i+1 == len(steps) || steps[i+1].opens; !leaves || !r.isAt(s.Position.Revision) {
				continue
			}
			if diff := differences(h.state(t, s.Position.Revision), r.state()); diff != "" {
				v.add(s.place, "replayed to position %d the history gives another state: %s", s.Position.Revision, diff)
			}
		}
	}
}
