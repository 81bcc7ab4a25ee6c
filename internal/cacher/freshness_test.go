package cacher_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
	"github.com/fanoutd/fanoutd/test/poll"
)

// A quiet store confirms the state every few seconds.
func TestAQuietStoreConfirmsTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		<-c.Ready()
		for range 60 {
			synctest.Wait()
			if age := time.Since(c.Confirmed()); age > 6*time.Second {
				t.Fatalf("got an age of %v, want at most 6s", age)
			}
			time.Sleep(time.Second)
		}
	})
}

// Writes to other keys are no lag of a resource that is never written. Changes that do not
// arrive are.
func TestMeasureLag(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		<-c.Ready()
		synctest.Wait()
		for range 100 {
			m.Commit(nil)
		}
		if s, lag, err := c.MeasureLag(t.Context()); lag != 0 || err != nil || s.Revision() != m.Now() {
			t.Errorf("got a lag of %d after writes to other keys, %v, want 0", lag, err)
		}
		m.Change(func() { m.Quiet = true })
		m.Put("k", "2")
		m.Put("k", "3")
		asked := time.Now()
		if _, lag, err := c.MeasureLag(t.Context()); lag != 2 || err != nil {
			t.Errorf("got a lag of %d, %v, want 2", lag, err)
		}
		if took := time.Since(asked); took > time.Second {
			t.Errorf("took %v, want at most a second", took)
		}
		m.Change(func() { m.Down = object.ErrUnavailable })
		if _, lag, err := c.MeasureLag(t.Context()); err == nil {
			t.Errorf("got a lag of %d, want an error", lag)
		}
	})
}

// While the store does not answer, nothing confirms the state. When it answers again, the first
// updates are old, so they do not count either.
func TestUpdatesAfterAnOutageDoNotConfirmTheState(t *testing.T) {
	for name, away := range map[string]func(method string) error{
		"silent watch": func(method string) error {
			if method == "Next" {
				return nil
			}
			return object.ErrUnavailable
		},
		"broken watch": func(string) error { return object.ErrUnavailable },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				m.Put("k", "1")
				c := run(t, m)
				<-c.Ready()
				time.Sleep(21 * time.Second)
				lost := time.Now()
				m.Change(func() { m.Quiet, m.Fault = true, away })
				missed := m.Put("k", "2")
				time.Sleep(time.Minute)
				if at := c.Confirmed(); at.After(lost) {
					t.Errorf("confirmed %v after the store was lost", at.Sub(lost))
				}

				wantOldUpdatesIgnored(t, m, c, lost, missed)
			})
		})
	}
}

// If the watch is silent although the store answers, its next updates are old, too.
func TestUpdatesAfterASilenceDoNotConfirmTheState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		<-c.Ready()
		time.Sleep(22 * time.Second) // the watch is checked every 5 s
		lost := time.Now()
		m.Change(func() { m.Quiet = true })
		missed := m.Put("k", "2")
		time.Sleep(9 * time.Second) // two checks: the last finds it silent, and three would give it up
		wantOldUpdatesIgnored(t, m, c, lost, missed)
	})
}

// wantOldUpdatesIgnored lets the watch deliver again, while the store does not say its revision
// yet. The updates do not confirm the state. When the store says its revision, that does.
func wantOldUpdatesIgnored(t *testing.T, m *cachertest.Memory, c *cacher.Cacher, lost time.Time, missed object.Revision) {
	t.Helper()
	m.Change(func() {
		m.Quiet = false
		m.Fault = func(method string) error {
			if method == "Revision" {
				return object.ErrUnavailable
			}
			return nil
		}
	})
	for c.State().Revision() < missed {
		<-c.State().Superseded()
	}
	synctest.Wait()
	if at := c.Confirmed(); at.After(lost) {
		t.Errorf("confirmed %v after the store was lost, by the missed update", at.Sub(lost))
	}
	m.Put("k", "3")
	synctest.Wait()
	if at := c.Confirmed(); at.After(lost) {
		t.Errorf("confirmed %v after the store was lost, by an update", at.Sub(lost))
	}

	m.Change(func() { m.Fault = nil })
	time.Sleep(10 * time.Second)
	synctest.Wait()
	if age := time.Since(c.Confirmed()); age > 6*time.Second {
		t.Errorf("got an age of %v after the store is back, want at most 6s", age)
	}
}

// The monotonic clock stands still while a machine is suspended, but a client must see that the
// state is old afterwards.
func TestLastContactIsATimeOfTheWallClock(t *testing.T) {
	m := cachertest.NewMemory()
	m.Put("k", "1")
	c := run(t, m)
	// The first contact is noted after the state that it brought.
	poll.Until(t, "there was a contact", func() bool { return !c.LastContact().IsZero() })
	if at := c.LastContact(); at != at.Round(0) {
		t.Errorf("got %v, which has a time of the monotonic clock", at)
	}
}
