package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
)

// A client that reads as often as it likes is slowed down to the rate that the server
// allows, and notices nothing else of it. What it writes it has to slow down itself.
func TestReadsFollowTheRateOfTheServer(t *testing.T) {
	const burst = 5
	r := newClient(t, newServer(t, func(c *config.Config) {
		c.MaxRequestRate, c.MaxRequestBurst = 20, burst
	}).Address()).Resource("config")
	ctx := within(t)
	for range 4 * burst {
		if _, err := r.Get(ctx, "a"); !errors.Is(err, client.ErrNotFound) {
			t.Fatal(err)
		}
	}
	refused := 0
	for range 4 * burst {
		_, err := r.Put(ctx, "a", client.Text("1"))
		if e, ok := errors.AsType[*client.Error](err); ok && e.Reason == client.ErrRateLimited && e.RetryAfter > 0 {
			refused++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if refused == 0 {
		t.Error("the test is too easy: the server has never refused anything")
	}
}

// A watch waits until there is a place for it, and then goes on.
func TestWatchesWaitForAPlace(t *testing.T) {
	r := newClient(t, newServer(t, func(c *config.Config) { c.MaxWatchersPerClient = 1 }).Address()).Resource("config")
	put(t, r, "a", "1")
	first, leave := context.WithCancel(within(t))
	defer leave()
	interruptions := 0
	for u, err := range r.Watch(first) {
		if err != nil {
			t.Fatal(err)
		}
		if !u.Synced {
			continue
		}
		second := r.Watch(within(t), client.OnInterruption(func(err error) {
			if !errors.Is(err, client.ErrTooManyWatchersOfClient) {
				t.Errorf("interrupted by %v", err)
			}
			interruptions++
			leave()
		}))
		for u, err := range second {
			if err != nil {
				t.Fatal(err)
			}
			if u.Synced {
				break
			}
		}
		break
	}
	if interruptions == 0 {
		t.Error("the test is too easy: there was a place")
	}
}
