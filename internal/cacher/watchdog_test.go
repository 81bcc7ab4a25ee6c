package cacher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// The self-check finds, counts and repairs a change that a watch has lost.
func TestSelfCheckRepairsLostChanges(t *testing.T) {
	lost := map[string]func(m *cachertest.Memory){
		"a new key":    func(m *cachertest.Memory) { m.Put("new", "1") },
		"a new value":  func(m *cachertest.Memory) { m.Put("k2", "2") },
		"a deletion":   func(m *cachertest.Memory) { m.Commit(map[object.Key][]byte{"k3": nil}) },
		"the last key": func(m *cachertest.Memory) { m.Commit(map[object.Key][]byte{"k9": nil}) },
	}
	for name, change := range lost {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				for _, key := range []object.Key{"k1", "k2", "k3", "k9"} {
					m.Put(key, "1")
				}
				c := run(t, m, func(cfg *cacher.Config) { cfg.CheckInterval = time.Minute })
				<-c.Ready()
				m.Change(func() { m.Lose = func(object.Record) bool { return true } })
				change(m)
				synctest.Wait()
				m.Change(func() { m.Lose = nil })
				m.Put("k1", "2")
				synctest.Wait()
				before := c.State().Position()
				if cmp.Equal(valuesOf(c.State()), m.State(m.Now())) {
					t.Fatal("the watch has lost no change")
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(m.State(m.Now()), valuesOf(c.State())); diff != "" {
					t.Errorf("the state is not repaired (-want +got):\n%s", diff)
				}
				if n := c.Counts().Mismatches; n != 1 {
					t.Errorf("mismatches: got %d, want 1", n)
				}
				// Clients that received the wrong state must not resume from it.
				if c.State().Position().Epoch == before.Epoch {
					t.Error("epoch: got the same, want a new one")
				}
				time.Sleep(10 * time.Minute)
				if n := c.Counts().Mismatches; n != 1 {
					t.Errorf("mismatches after the repair: got %d, want 1", n)
				}
			})
		})
	}
}

func valuesOf(s *cacher.State) map[object.Key]string {
	values := map[object.Key]string{}
	for o := range s.Objects(object.Scope{}, "") {
		values[o.Key] = string(wire.Decode(o).Value)
	}
	return values
}

// A store that went back to an older state under the same epoch gets a new epoch.
func TestStoreThatWentBackGetsANewEpoch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		kept := m.Put("kept", "1")
		m.Put("lost", "1")
		c := run(t, m)
		<-c.Ready()
		before := c.State().Position()
		m.Back(kept)
		if _, err := c.Read(t.Context(), object.Consistency{}); err == nil {
			t.Error("linearizable read: got a state that the store no longer has, want an error")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s := read(t, c, object.Consistency{})
		if s.Position().Epoch == before.Epoch {
			t.Errorf("epoch: got %s again, want a new one", before.Epoch)
		}
		if diff := cmp.Diff(m.State(kept), valuesOf(s)); diff != "" || s.Revision() != kept {
			t.Errorf("the state at %v (-want +got):\n%s", s.Position(), diff)
		}
	})
}

// A watch that is silent although the store has newer revisions is replaced, whether or
// not readers wait meanwhile.
func TestSilentWatchIsReplaced(t *testing.T) {
	for name, meanwhile := range map[string]func(*cacher.Cacher){
		"no reader": func(*cacher.Cacher) {},
		"linearizable reads": func(c *cacher.Cacher) {
			_, _ = c.Read(context.Background(), object.Consistency{}) // until it times out
		},
		"progress requests": (*cacher.Cacher).Advance,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				m.Put("k", "1")
				c := run(t, m)
				<-c.Ready()
				m.Change(func() { m.Silent = 1 })
				now := m.Put("k", "2")
				synctest.Wait()
				if c.State().Revision() == now {
					t.Fatal("the watch is not silent")
				}
				for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(100 * time.Millisecond) {
					meanwhile(c)
				}
				if got := c.State().Revision(); got != now {
					t.Errorf("revision: got %d, want %d", got, now)
				}
			})
		})
	}
	t.Run("during the first fill", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := cachertest.NewMemory()
			m.Put("k", "1")
			m.Put("k", "2")
			m.Change(func() { m.Silent = 1 })
			c := run(t, m)
			time.Sleep(time.Minute)
			if c.State() == nil {
				t.Error("state: got none, want one")
			}
		})
	})
}

// The watchdog notices a store that is away although the watch does not fail: an etcd
// client tries to reconnect for ever.
func TestHonestAboutAStoreThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		<-c.Ready()
		time.Sleep(time.Minute)
		if !c.Following() {
			t.Fatal("following a quiet store: got false, want true")
		}
		m.Change(func() {
			m.Quiet = true
			m.Fault = func(method string) error {
				if method == "Next" {
					return nil
				}
				return object.ErrUnavailable
			}
		})
		time.Sleep(15 * time.Second)
		if c.Following() {
			t.Error("following a store that does not answer: got true, want false")
		}
		m.Change(func() { m.Quiet, m.Fault = false, nil })
		time.Sleep(10 * time.Second)
		if !c.Following() {
			t.Error("following a store that answers again: got false, want true")
		}
	})
}
