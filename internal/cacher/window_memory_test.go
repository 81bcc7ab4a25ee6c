package cacher_test

import (
	"runtime"
	"testing"
	"weak"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// The limit of the window in bytes holds for its memory, too: changes that were trimmed are
// released soon, however large they are.
func TestTrimmedChangesAreReleased(t *testing.T) {
	m := cachertest.NewMemory()
	c := run(t, m, func(cfg *cacher.Config) { cfg.Window.MaxBytes = 1 << 20 })
	state := read(t, c, object.Consistency{})
	var versions []weak.Pointer[object.Object]
	for range 200 {
		at := m.Put("k", string(make([]byte, 50_000)))
		for state.Revision() < at {
			<-state.Superseded()
			state = c.State()
		}
		versions = append(versions, weak.Make(state.Get("k")))
	}
	runtime.GC()
	runtime.GC()
	alive := 0
	for _, v := range versions {
		if v.Value() != nil {
			alive++
		}
	}
	// Each change has two versions of 100 kB, one of them encoded.
	if n := state.WindowLen(); alive > 2*n+5 {
		t.Errorf("got %d versions of an object in memory, but a window of %d changes", alive, n)
	}
	runtime.KeepAlive(state)
}
