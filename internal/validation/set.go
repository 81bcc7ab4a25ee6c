package validation

import (
	"slices"
	"unsafe"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Set is the compiled content of a validation file. It is immutable and safe for concurrent use.
type Set struct {
	checks []check
	hash   string
}

// check is an entry of the file.
type check struct {
	keys   []keyPattern // none: every key
	schema *schema      // nil: none
	rules  []rule
}

// Hash identifies the content of the file and of the schemas that it names. Servers with the same files have
// the same hash.
func (s *Set) Hash() string { return s.hash }

// Checks are the checks of one key. There are none for most keys, and then it is nil.
type Checks struct {
	all      []*check
	readsOld bool
	deletes  bool
}

// For returns the checks of a key.
func (s *Set) For(key object.Key) *Checks {
	if s == nil {
		return nil
	}
	var found *Checks
	for i := range s.checks {
		c := &s.checks[i]
		if !matchAny(c.keys, key) {
			continue
		}
		if found == nil {
			found = &Checks{}
		}
		found.all = append(found.all, c)
		for _, r := range c.rules {
			found.readsOld = found.readsOld || r.readsOld
			found.deletes = found.deletes || r.deletes
		}
	}
	return found
}

// ApplyToDeletes reports whether any check applies to a delete.
func (c *Checks) ApplyToDeletes() bool { return c != nil && c.deletes }

// ReadOld reports whether a check may depend on the object that the write replaces.
func (c *Checks) ReadOld() bool { return c.readsOld }

// Object is an object before or after a write.
type Object struct {
	Value       []byte // must not be modified
	ContentType string
	Labels      map[string]string
}

// parse returns the value of the variables self and oldSelf: a JSON document as Go values, other text as a
// string, anything else as bytes.
func (o *Object) parse() (any, *fault) {
	switch {
	case object.IsJSON(o.ContentType):
		return parseDocument(unsafe.String(unsafe.SliceData(o.Value), len(o.Value)))
	case object.IsText(o.ContentType, o.Value):
		return string(o.Value), nil
	}
	return o.Value, nil
}

// Identity is the caller of a write.
type Identity struct {
	Name   string
	Groups []string
	Method string
}

// Write is what is checked. Old must be the object that the write replaces, if the checks read it. It may be
// replaced before a write is checked again; the other fields must not.
type Write struct {
	Key       object.Key
	New       *Object // nil: the write deletes the object
	Old       *Object // nil: there is none, or rules do not see it
	OldHidden bool    // Old is nil, but the write replaces an object, which has no form that rules can read
	Identity  Identity

	wellFormed bool // New was parsed, and its schemas allow it
	self       any
}

// Check returns the faults of a write. It is called within [Budget.Spend].
func (c *Checks) Check(b *Budget, w *Write) Violations {
	var found Violations
	if w.New != nil && !w.wellFormed {
		if b.ended(&found) {
			return found
		}
		if c.checkForm(b, w, &found); len(found) > 0 {
			return found // rules may take the form of the value for granted
		}
		w.wellFormed = true
	}
	v := &variables{write: w}
	for _, one := range c.all {
		for i := range one.rules {
			r := &one.rules[i]
			if w.New == nil && !r.deletes {
				continue
			}
			if b.ended(&found) {
				return found
			}
			if r.readsOld && !v.readOld(&found) {
				return found
			}
			r.check(b, v, &found)
		}
	}
	return found
}

// checkForm parses the new value and applies the schemas.
func (c *Checks) checkForm(b *Budget, w *Write, found *Violations) {
	var fault *fault
	if w.self, fault = w.New.parse(); fault != nil {
		found.at(fault.pointer(), "%s", fault.reason)
		return
	}
	for _, one := range c.all {
		switch {
		case one.schema == nil:
		case b.ended(found):
			return
		case object.IsJSON(w.New.ContentType):
			one.schema.check(b, w.self, found)
		default:
			found.at("", "must be JSON, because there is a schema for it; its content type is %q", clip(w.New.ContentType, maxGivenBytes))
		}
	}
}

// variable returns the value of the variable identity.
func (i Identity) variable() map[string]any {
	return map[string]any{"name": i.Name, "groups": slices.Clip(i.Groups), "method": i.Method}
}
