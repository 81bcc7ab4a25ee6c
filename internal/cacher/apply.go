package cacher

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// apply applies an update of the store and publishes the new state.
func (c *Cacher) apply(u object.Update) {
	c.received = time.Now()
	for i := range u.Records {
		r := &u.Records[i]
		if r.Deleted {
			c.change(r.Key, r.ModRevision, nil)
		} else {
			c.change(r.Key, r.ModRevision, c.build(r))
		}
	}
	c.advance(u.Through)
}

// change applies a change that the store sent, and adds it to the window.
func (c *Cacher) change(key object.Key, at object.Revision, o *object.Object) {
	old := c.replace(key, at, o)
	if old == nil && o == nil {
		// The key was created and deleted before it could be listed, or a relist has
		// already applied this deletion.
		return
	}
	c.window.append(object.Change{Revision: at, Key: key, Old: old, New: o}, c.received)
}

// replace replaces the object of a key with o and returns the old one. If o is nil, it
// removes the object.
func (c *Cacher) replace(key object.Key, at object.Revision, o *object.Object) (old *object.Object) {
	if o != nil {
		old, _ = c.objects.Set(o)
		c.changes.put(old, o)
	} else {
		old, _ = c.objects.Delete(&object.Object{Key: key})
		if old == nil {
			return nil
		}
		c.changes.remove(old, at)
	}
	c.undecryptable += countUndecryptable(o) - countUndecryptable(old)
	c.counts.changes.Add(1)
	return old
}

// countUndecryptable returns 1 for an object whose value cannot be decrypted, else 0.
func countUndecryptable(o *object.Object) int {
	if o != nil && o.Undecryptable() {
		return 1
	}
	return 0
}

// advance moves the position to a revision. All changes up to it have been applied.
func (c *Cacher) advance(to object.Revision) {
	if to > c.position.Revision {
		c.position.Revision = to
		c.reached.Store(int64(to))
	}
	c.opaque.commit(to)
	c.window.trim(c.cfg.Window, time.Now())
	if c.position.Revision >= c.publishFrom {
		if c.filling {
			compact(c.objects)
			compact(c.changes.byRevision)
		}
		c.publish()
		if !c.publishAsked.IsZero() {
			c.fresh.Confirm(c.publishAsked)
			c.publishAsked = time.Time{}
		}
		if c.filling {
			c.filling = false
			c.log.Info("resource loaded", "objects", c.objects.Len(), "revision", c.position.Revision, "window_after", c.window.after, "epoch", c.position.Epoch)
		}
	}
}

// publish makes the writer's state visible to readers. It builds the state, stores the
// pointer to it, and then wakes waiting readers, in this order.
func (c *Cacher) publish() {
	previous := c.state.Load()
	if previous != nil && previous.position == c.position {
		return
	}
	c.state.Store(&State{
		position:      c.position,
		objects:       c.objects.Copy(),
		window:        c.window,
		changes:       c.changes.freeze(),
		undecryptable: c.undecryptable,
		published:     time.Now(),
		superseded:    make(chan struct{}),
	})
	if previous == nil {
		close(c.ready)
	} else {
		close(previous.superseded)
	}
}

// build decodes a record and notes a value that does not decode. Only the writer calls
// it.
func (c *Cacher) build(r *object.Record) *object.Object {
	o, err := c.decode(r)
	c.noteFailure(r, err)
	return o
}

// noteFailure notes why a value does not decode, unless the error is nil. Only the writer calls
// it.
func (c *Cacher) noteFailure(r *object.Record, err error) {
	if err != nil {
		c.opaque.note(c.log, r, err)
	}
}

// decode returns the object of a record. It always returns one; the error explains why the
// object is opaque.
func (c *Cacher) decode(r *object.Record) (*object.Object, error) {
	d, err := object.Build(c.cfg.Codec, r)
	return c.cfg.Preencode(d), err
}
