package check

import (
	"bytes"
	"fmt"
	"maps"
	"strings"

	"github.com/fanoutd/fanoutd/internal/object"
)

// sees reports whether the watcher sees an object.
func (h *History) sees(o *object.Decoded) bool {
	return o != nil && h.Scope.Contains(o.Key) && (h.Picks == nil || h.Picks(o))
}

// image returns the object as the watcher receives it. The value is nil only if the watcher
// asked for no values.
func (h *History) image(o *object.Decoded) object.Decoded {
	shown := *o
	switch {
	case h.OmitValues:
		shown.Value = nil
	case shown.Value == nil:
		shown.Value = []byte{}
	}
	return shown
}

// state returns the objects that the watcher sees at a revision, in order of keys.
func (h *History) state(t *Truth, at object.Revision) []*object.Decoded {
	var state []*object.Decoded
	for _, o := range t.State(h.Scope, at) {
		if h.sees(o) {
			shown := h.image(o)
			state = append(state, &shown)
		}
	}
	return state
}

// event returns the event of a change for the watcher, or false if there is none. An object
// that begins to match the selectors is added, and one that no longer matches is deleted.
func (h *History) event(c *Change) (Event, bool) {
	before, after := h.sees(c.Old), h.sees(c.New)
	switch {
	case before && after:
		return Event{Type: object.Modified, Revision: c.New.ModRevision, Object: h.image(c.New), Previous: h.previous(c.Old)}, true
	case after:
		return Event{Type: object.Added, Revision: c.New.ModRevision, Object: h.image(c.New)}, true
	case before:
		return Event{Type: object.Deleted, Revision: c.Revision, Object: h.image(c.Old), Previous: h.previous(c.Old)}, true
	}
	return Event{}, false
}

func (h *History) previous(o *object.Decoded) *object.Decoded {
	if !h.Previous {
		return nil
	}
	shown := h.image(o)
	return &shown
}

// wrong describes what is wrong with an event. It returns "" if nothing is.
func wrong(want, got *Event) string {
	if got.Type != want.Type {
		return "should be " + want.String()
	}
	if got.Revision != want.Revision {
		return fmt.Sprintf("has revision %d instead of %d", got.Revision, want.Revision)
	}
	if diff := difference(&want.Object, &got.Object); diff != "" {
		return diff
	}
	switch {
	case want.Previous == nil && got.Previous == nil:
		return ""
	case want.Previous == nil:
		return "comes with a previous object"
	case got.Previous == nil:
		return "comes without the previous object"
	}
	if diff := difference(want.Previous, got.Previous); diff != "" {
		return "has a previous object that " + diff
	}
	return ""
}

// difference describes how two objects of one key differ.
func difference(want, got *object.Decoded) string {
	var all []string
	differ := func(field string, want, got any) {
		all = append(all, fmt.Sprintf("has %s %v instead of %v", field, got, want))
	}
	if want.Key != got.Key {
		differ("key", want.Key, got.Key)
	}
	if want.ModRevision != got.ModRevision {
		differ("mod revision", want.ModRevision, got.ModRevision)
	}
	if want.CreateRevision != got.CreateRevision {
		differ("create revision", want.CreateRevision, got.CreateRevision)
	}
	if want.Version != got.Version {
		differ("version", want.Version, got.Version)
	}
	switch {
	case want.Value == nil && got.Value != nil:
		all = append(all, fmt.Sprintf("has a value, %.100q", got.Value))
	case want.Value != nil && got.Value == nil:
		all = append(all, fmt.Sprintf("has no value instead of %.100q", want.Value))
	case !bytes.Equal(want.Value, got.Value):
		differ("value", fmt.Sprintf("%.100q", want.Value), fmt.Sprintf("%.100q", got.Value))
	}
	if want.ContentType != got.ContentType {
		differ("content type", want.ContentType, got.ContentType)
	}
	if !maps.Equal(want.Labels, got.Labels) {
		differ("labels", want.Labels, got.Labels)
	}
	if want.Opaque != got.Opaque {
		differ("opaque", want.Opaque, got.Opaque)
	}
	return strings.Join(all, ", ")
}
