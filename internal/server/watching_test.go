package server

import (
	"testing"
	"unsafe"
)

// What a worker looks at for each message is in two lines of a processor's cache, and a watch
// is no larger than it has to be.
func TestWhatAMessageLooksAtIsTogether(t *testing.T) {
	const line = 64
	var w watching
	session, outlet, live := unsafe.Offsetof(w.session), unsafe.Offsetof(w.outlet), unsafe.Offsetof(w.live)
	for _, hot := range []struct {
		what        string
		begin, past uintptr
	}{
		{"the session", unsafe.Offsetof(w.ends) + unsafe.Offsetof(w.ends.reason), session + unsafe.Offsetof(w.session.at) + unsafe.Sizeof(w.session.at)},
		{"the way out", outlet + unsafe.Offsetof(w.outlet.stream), live + unsafe.Offsetof(w.live.serving) + unsafe.Sizeof(w.live.serving)},
	} {
		if hot.begin%line != 0 || hot.past > hot.begin+line {
			t.Errorf("%s is from %d to %d", hot.what, hot.begin, hot.past)
		}
	}
	// The sizes that the runtime allocates begin lines as well.
	if size := unsafe.Sizeof(w); size > 704 {
		t.Errorf("a watch has %d bytes", size)
	}
}
