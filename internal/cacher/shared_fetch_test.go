package cacher_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// A caller whose time is over does not send another request.
func TestSharedFetchOfAStoreThatDoesNotAnswer(t *testing.T) {
	for range 50 { // what select does is random
		synctest.Test(t, func(t *testing.T) {
			sent := 0
			f := cacher.NewSharedFetch(func(ctx context.Context) (int, error) {
				sent++
				<-ctx.Done()
				return 0, ctx.Err()
			}, 3*time.Second)
			if _, err := f.Get(t.Context()); !errors.Is(err, object.ErrUnavailable) || sent != 1 {
				t.Errorf("got %v after %d requests, want %v after one", err, sent, object.ErrUnavailable)
			}
		})
	}
}
