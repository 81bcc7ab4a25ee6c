package main

import (
	"context"
	"errors"
	"maps"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/clienttest"
)

// site is what the work leads to.
type site struct {
	t *testing.T

	mu      sync.Mutex
	applied map[string]string
	busy    map[string]bool
	calls   map[string]int
	most    int // objects that were worked on at the same time
	fail    int // so many calls for the key "jobs/bad" fail
}

// work takes a second.
func (s *site) work(_ context.Context, key string, value *string) error {
	s.begin(key)
	time.Sleep(time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.busy, key)
	if key == "jobs/bad" && s.fail > 0 {
		s.fail--
		return errors.New("not now")
	}
	if value == nil {
		delete(s.applied, key)
	} else {
		s.applied[key] = *value
	}
	return nil
}

func (s *site) begin(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy[key] {
		s.t.Errorf("two workers have %s", key)
	}
	s.busy[key] = true
	s.calls[key]++
	s.most = max(s.most, len(s.busy))
}

// The work ends in the state of the server. Objects are worked on at the same time, but none
// by two workers. Changes that come during the work on an object are one more call.
func TestTheWorkEndsInTheStateOfTheServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := clienttest.NewServer(t, "config")
		config := server.Client().Resource("config")
		put := func(key, value string) {
			t.Helper()
			if _, err := config.Put(t.Context(), key, client.Text(value)); err != nil {
				t.Fatal(err)
			}
		}
		s := &site{t: t, applied: map[string]string{}, busy: map[string]bool{}, calls: map[string]int{}, fail: 3}
		for _, key := range []string{"jobs/a", "jobs/b", "jobs/c", "jobs/d", "jobs/e", "jobs/bad"} {
			put(key, "1")
		}
		ctx, stop := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- run(ctx, config, "jobs", s.work) }()
		synctest.Wait()
		for range 10 {
			put("jobs/a", "2")
		}
		put("jobs/a", "3")
		if _, _, err := config.Delete(ctx, "jobs/b"); err != nil {
			t.Fatal(err)
		}
		server.CutConnections()
		time.Sleep(time.Minute)
		synctest.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		if want := map[string]string{"jobs/a": "3", "jobs/c": "1", "jobs/d": "1", "jobs/e": "1", "jobs/bad": "1"}; !maps.Equal(s.applied, want) {
			t.Errorf("the work has led to %v, want %v", s.applied, want)
		}
		if s.most != workers {
			t.Errorf("%d objects were worked on at the same time, want %d", s.most, workers)
		}
		if s.calls["jobs/a"] != 2 || s.calls["jobs/bad"] != 4 {
			t.Errorf("got %d calls for a and %d for bad, want 2 and 4", s.calls["jobs/a"], s.calls["jobs/bad"])
		}
		stop()
		<-done
	})
}
