package check

// Bounded checks that a message does not exceed the size limit, however far the watcher has
// fallen behind. A single event may be larger.
//
// A watcher can see only this part of the guarantee. The memory that the server needs for
// clients that do not read is measured elsewhere.
func Bounded(h *History, t *Truth) error {
	v := violations{history: h, guarantee: "bounded"}
	for _, s := range walk(h) {
		if t.MessageBytes > 0 && s.Bytes > t.MessageBytes && len(s.Events) > 1 {
			v.add(s.place, "a message of %d events and %d bytes, the limit is %d", len(s.Events), s.Bytes, t.MessageBytes)
		}
	}
	return v.err()
}
