package check

// Bounded: what is on its way to a watcher is no more than one message of a limited
// size, however far it is behind. One event alone may be larger.
//
// It is the part of the promise that a watcher sees. What the server holds for those
// who do not read is seen in its memory only.
func Bounded(h *History, t *Truth) error {
	v := verdict{history: h, guarantee: "bounded"}
	for _, s := range walk(h) {
		if t.MessageBytes > 0 && s.Bytes > t.MessageBytes && len(s.Events) > 1 {
			v.broken(s.place, "a message of %d events that take %d bytes, the limit is %d", len(s.Events), s.Bytes, t.MessageBytes)
		}
	}
	return v.err()
}
