package cacher_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// What a watch has swallowed is found out, counted and repaired.
func TestSelfCheckRepairs(t *testing.T) {
	swallowed := map[string]func(m *cachertest.Memory){
		"a new key":    func(m *cachertest.Memory) { m.Put("new", "1") },
		"a new value":  func(m *cachertest.Memory) { m.Put("k2", "2") },
		"a deletion":   func(m *cachertest.Memory) { m.Commit(map[object.Key][]byte{"k3": nil}) },
		"the last key": func(m *cachertest.Memory) { m.Commit(map[object.Key][]byte{"k9": nil}) },
	}
	for name, change := range swallowed {
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
					t.Fatal("nothing was swallowed")
				}
				time.Sleep(2 * time.Minute)
				synctest.Wait()
				if diff := cmp.Diff(m.State(m.Now()), valuesOf(c.State())); diff != "" {
					t.Errorf("the state is not repaired (-want +got):\n%s", diff)
				}
				if n := c.Counts().Mismatches; n != 1 {
					t.Errorf("%d mismatches counted", n)
				}
				// Who has been told what is wrong must not go on from there.
				if c.State().Position().Epoch == before.Epoch {
					t.Error("the epoch is the same")
				}
				time.Sleep(10 * time.Minute)
				if n := c.Counts().Mismatches; n != 1 {
					t.Errorf("%d mismatches of a state that is right", n)
				}
			})
		})
	}
}

func valuesOf(s *cacher.State) map[object.Key]string {
	values := map[object.Key]string{}
	for o := range s.Objects(object.Scope{}, "") {
		values[o.Key] = string(o.Value)
	}
	return values
}

// A store that was put back, and does not know it, is another one all the same.
func TestAStoreThatWentBackIsAnotherOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		kept := m.Put("kept", "1")
		m.Put("lost", "1")
		c := run(t, m)
		<-c.Ready()
		before := c.State().Position()
		m.Back(kept)
		if _, err := c.Read(t.Context(), cacher.Consistency{}); err == nil {
			t.Error("a linearizable read is answered from a past that is not that of the store")
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s := read(t, c, cacher.Consistency{})
		if s.Position().Epoch == before.Epoch {
			t.Errorf("the epoch is still %s", before.Epoch)
		}
		if diff := cmp.Diff(m.State(kept), valuesOf(s)); diff != "" || s.Revision() != kept {
			t.Errorf("the state at %v (-want +got):\n%s", s.Position(), diff)
		}
	})
}

// The differences that a relist finds are told in the order of their revisions, the
// deletions at that of the relist.
func TestOrderedAcrossARelist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		for _, key := range []object.Key{"a", "b", "c", "d"} {
			m.Put(key, "1")
		}
		c := run(t, m)
		<-c.Ready()
		before := c.State().Revision()
		m.Change(func() { m.Quiet = true })
		m.Commit(map[object.Key][]byte{"a": nil})
		m.Put("d", "2")
		m.Put("b", "2")
		m.Put("a0", "1")
		now := m.Put("c", "2")
		m.Change(func() { m.Compacted, m.Quiet = now, false })
		synctest.Wait()
		changes, ok := c.State().Changes(before)
		if !ok {
			t.Fatal("the window does not reach back")
		}
		var keys []object.Key
		for change := range changes {
			keys = append(keys, change.Key)
		}
		if diff := cmp.Diff([]object.Key{"d", "b", "a0", "a", "c"}, keys); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	})
}

// A watch that has gone deaf while the store moves on is opened again, whoever waits
// or asks meanwhile.
func TestADeafWatchIsReplaced(t *testing.T) {
	for name, meanwhile := range map[string]func(*cacher.Cacher){
		"in silence": func(*cacher.Cacher) {},
		"while somebody reads": func(c *cacher.Cacher) {
			_, _ = c.Read(context.Background(), cacher.Consistency{}) // for as long as that may take
		},
		"while somebody wants bookmarks": (*cacher.Cacher).Advance,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := cachertest.NewMemory()
				m.Put("k", "1")
				c := run(t, m)
				<-c.Ready()
				m.Change(func() { m.Deaf = 1 })
				now := m.Put("k", "2")
				synctest.Wait()
				if c.State().Revision() == now {
					t.Fatal("the watch is not deaf")
				}
				for begun := time.Now(); time.Since(begun) < time.Minute; time.Sleep(100 * time.Millisecond) {
					meanwhile(c)
				}
				if got := c.State().Revision(); got != now {
					t.Errorf("at revision %d, want %d", got, now)
				}
			})
		})
	}
	t.Run("before anything is loaded", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			m := cachertest.NewMemory()
			m.Put("k", "1")
			m.Put("k", "2")
			m.Change(func() { m.Deaf = 1 })
			c := run(t, m)
			time.Sleep(time.Minute)
			if c.State() == nil {
				t.Error("nothing is loaded")
			}
		})
	})
}

// A store that is gone is noticed although its watch does not fail: an etcd client
// tries to connect for ever.
func TestHonestAboutAStoreThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := cachertest.NewMemory()
		m.Put("k", "1")
		c := run(t, m)
		<-c.Ready()
		time.Sleep(time.Minute)
		if !c.Following() {
			t.Fatal("a quiet store is not followed")
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
			t.Error("it is said to follow a store that does not answer")
		}
		m.Change(func() { m.Quiet, m.Fault = false, nil })
		time.Sleep(10 * time.Second)
		if !c.Following() {
			t.Error("it is not said to follow a store that answers again")
		}
	})
}
