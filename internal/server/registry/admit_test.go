package registry

import "testing"

// A watch that no limit has seen cannot begin.
func TestOnlyAnAdmittedWatchBegins(t *testing.T) {
	r := newRegistry(Config{Resources: resources})
	s := newRPC("a", 1)
	if err := r.Register(s); err != nil {
		t.Fatal(err)
	}
	for _, stage := range []Stage{NotAdmitted, Begun, Ended} {
		s.watches[0].stage = stage
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a watch of stage %d began", stage)
				}
			}()
			_ = r.Begin(s.watches[0])
		}()
	}
	if n := r.CountByResource()["a"]; n != 0 {
		t.Errorf("got %d watches, want none", n)
	}
}
