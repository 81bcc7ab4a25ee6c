package script

import (
	"maps"
	"slices"
	"strings"
	"sync"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// History is the objects of one epoch, and how they have changed. The zero revision has no objects.
//
// Keys begin with the name of a watch and a slash, because each watch of a scenario has its name as
// its prefix.
//
// Any number of goroutines may use a History.
type History struct {
	epoch string

	mu      sync.Mutex
	changes []change // in order of revision; guarded by mu
	last    int64    // guarded by mu
}

// change is one write of one key.
type change struct {
	revision int64
	key      string
	object   *fanoutv1.Object // nil: deleted
}

// NewHistory returns the history of an epoch.
func NewHistory(epoch string) *History { return &History{epoch: epoch} }

// Epoch returns the epoch.
func (h *History) Epoch() string { return h.epoch }

// Revision returns the latest revision.
func (h *History) Revision() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// Position returns the position of a revision.
func (h *History) Position(revision int64) *fanoutv1.Position {
	return &fanoutv1.Position{Epoch: h.epoch, Revision: revision}
}

// Write is one operation of a transaction.
type Write struct {
	Key   string
	Value *string // the text of the object; nil: the object has no value, unless it has Data
	Data  []byte  // the value, if it is not text
	Gone  bool    // the object is deleted

	ContentType string
	Labels      map[string]string
}

// Put writes a text.
func Put(key, text string) Write { return Write{Key: key, Value: &text} }

// PutNothing writes an object without a value, as a server sends one that it may not decrypt.
func PutNothing(key string) Write { return Write{Key: key} }

// Delete deletes an object.
func Delete(key string) Write { return Write{Key: key, Gone: true} }

// Write makes a transaction, and returns its revision.
func (h *History) Write(writes ...Write) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	before := objects(h.changes, "", h.last)
	h.last++
	for _, w := range writes {
		c := change{revision: h.last, key: w.Key}
		if !w.Gone {
			c.object = &fanoutv1.Object{Key: w.Key, ModRevision: h.last, CreateRevision: h.last, Version: 1}
			if old := before[w.Key]; old != nil {
				c.object.CreateRevision, c.object.Version = old.GetCreateRevision(), old.GetVersion()+1
			}
			c.object.ContentType, c.object.Labels = w.ContentType, w.Labels
			switch {
			case w.Value != nil:
				c.object.Value = &fanoutv1.Object_Text{Text: *w.Value}
			case w.Data != nil:
				c.object.Value = &fanoutv1.Object_Data{Data: w.Data}
			}
		}
		h.changes = append(h.changes, c)
	}
	return h.last
}

// all returns the changes so far. They never change.
func (h *History) all() []change {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.changes
}

// objects returns the objects of a watch at a revision, by key. The empty name stands for all.
func objects(changes []change, watch string, revision int64) map[string]*fanoutv1.Object {
	all := map[string]*fanoutv1.Object{}
	for _, c := range changes {
		switch {
		case c.revision > revision || watch != "" && !strings.HasPrefix(c.key, watch+"/"):
		case c.object == nil:
			delete(all, c.key)
		default:
			all[c.key] = c.object
		}
	}
	return all
}

// State returns the objects of a watch at a revision, by key.
func (h *History) State(watch string, revision int64) map[string]*fanoutv1.Object {
	return objects(h.all(), watch, revision)
}

// Wrote reports whether a revision has written an object.
func (h *History) Wrote(key string, revision int64) bool {
	return slices.ContainsFunc(h.all(), func(c change) bool { return c.revision == revision && c.key == key && c.object != nil })
}

// Snapshot returns the events of a RESET: all objects of a watch at a revision, in order of their keys.
func (h *History) Snapshot(watch string, revision int64) []*fanoutv1.Event {
	objects := objects(h.all(), watch, revision)
	var events []*fanoutv1.Event
	for _, key := range slices.Sorted(maps.Keys(objects)) {
		o := objects[key]
		events = append(events, &fanoutv1.Event{Type: fanoutv1.Event_TYPE_ADDED, Revision: o.GetModRevision(), Object: o})
	}
	return events
}

// Events returns every event of a watch after a revision, up to another.
func (h *History) Events(watch string, after, to int64) []*fanoutv1.Event {
	changes := h.all()
	now := objects(changes, watch, after)
	var events []*fanoutv1.Event
	for _, c := range changes {
		if c.revision <= after || c.revision > to || !strings.HasPrefix(c.key, watch+"/") {
			continue
		}
		old := now[c.key]
		e := &fanoutv1.Event{Type: fanoutv1.Event_TYPE_ADDED, Revision: c.revision, Object: c.object}
		switch {
		case c.object == nil && old == nil:
			continue
		case c.object == nil:
			e.Type, e.Object = fanoutv1.Event_TYPE_DELETED, old
			delete(now, c.key)
		case old != nil:
			e.Type = fanoutv1.Event_TYPE_MODIFIED
			fallthrough
		default:
			now[c.key] = c.object
		}
		events = append(events, e)
	}
	return events
}

// Difference returns the events of a DELTA: what differs between two revisions, in order of revision.
func (h *History) Difference(watch string, after, to int64) []*fanoutv1.Event {
	changes := h.all()
	before, now := objects(changes, watch, after), objects(changes, watch, to)
	var events []*fanoutv1.Event
	seen := map[string]bool{}
	for _, c := range slices.Backward(changes) {
		if c.revision <= after || c.revision > to || !strings.HasPrefix(c.key, watch+"/") || seen[c.key] {
			continue
		}
		seen[c.key] = true
		e := &fanoutv1.Event{Revision: c.revision}
		switch o := now[c.key]; {
		case o == nil:
			e.Type, e.Object = fanoutv1.Event_TYPE_DELETED, &fanoutv1.Object{Key: c.key}
		case before[c.key] == nil:
			e.Type, e.Object = fanoutv1.Event_TYPE_ADDED, o
		default:
			e.Type, e.Object = fanoutv1.Event_TYPE_MODIFIED, o
		}
		events = append(events, e)
	}
	slices.Reverse(events)
	return events
}

// Merged returns the events after a revision, up to another, as DELIVERY_LATEST merges them.
func (h *History) Merged(watch string, after, to int64) []*fanoutv1.Event {
	before := objects(h.all(), watch, after)
	var events []*fanoutv1.Event
	for _, e := range h.Difference(watch, after, to) {
		old := before[e.GetObject().GetKey()]
		if e.GetType() == fanoutv1.Event_TYPE_DELETED {
			if old == nil {
				continue // it came and went
			}
			e.Object = old
		}
		events = append(events, e)
	}
	return events
}
