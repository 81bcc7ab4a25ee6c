package store

import (
	"errors"
	"testing"
	"testing/synctest"
)

// A call that waits for a goroutine of etcd ends when that goroutine has failed.
func TestCallsEndWhenEtcdFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fatal := newFatalErrors()
		failed := make(chan struct{})
		defer close(failed)
		first := errors.New("no such file")
		err := fatal.during(func() error {
			fatal.report(first)
			<-failed // as etcd waits for a goroutine that cannot go on
			return nil
		})
		if !errors.Is(err, first) || !fatal.any() {
			t.Errorf("got %v, %t, want %v", err, fatal.any(), first)
		}
		fatal.report(errors.New("a consequence"))
		if err := fatal.during(func() error { <-failed; return nil }); !errors.Is(err, first) {
			t.Errorf("got %v, want %v", err, first)
		}
	})
}
