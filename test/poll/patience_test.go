package poll_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/test/poll"
)

// The requests of a test carry no deadline, and end nevertheless if the program is broken.
func TestContextEndsWithoutADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		ctx, cancel := context.WithCancel(poll.Context(t))
		defer cancel()
		if deadline, ok := ctx.Deadline(); ok {
			t.Errorf("got deadline %v, want none", deadline)
		}
		<-ctx.Done()
		if waited := time.Since(began); waited != poll.Patience || !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			t.Errorf("got %v after %v, want %v after %v", ctx.Err(), waited, context.DeadlineExceeded, poll.Patience)
		}
	})
}
