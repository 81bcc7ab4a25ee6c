package feed

import (
	"iter"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// index finds the feeds that a change may concern, and looks at no other feeds. A change may
// concern the feeds of the whole resource, of each ancestor path of its key, and of the key
// itself. If a feed requires a particular value of a label or of an indexed field, the index finds
// the feed only if the changed object has or had that value.
type index struct {
	fields []int // indexed fields
	size   int   // number of feeds

	whole     map[object.Scope]*Feed // the feeds without a selector; those of a scope have different projections, and are a list
	selecting map[interestKey]*Feed  // the feeds with a selector
	required  map[indexKey][]*Feed   // the same feeds by what they require

	scoped   int // number of feeds in required that are found by their scope alone
	fielded  int // number of feeds found by the value of a field
	labelled int // number of feeds found by the value of a label
}

// indexKey is the key under which the index lists a feed.
type indexKey struct {
	scope object.Scope
	field int    // index of the field that must have the value, or one of the constants below
	label string // the label that must have the value; only with labelField
	value string
}

// Values of indexKey.field that are not the index of a field.
const (
	noField    = -100 // no value is required
	labelField = -101 // the value of a label is required
)

func newIndex(fields []int) index {
	// The last segment of the key (metadata.name) is always indexed, because finding it
	// costs nothing.
	return index{
		fields: append(slices.Clone(fields), selector.NameIndex),
		whole:  map[object.Scope]*Feed{}, selecting: map[interestKey]*Feed{}, required: map[indexKey][]*Feed{},
	}
}

// find returns the feed of an interest, or nil.
func (x *index) find(i *Interest) *Feed {
	if i.Selector.Requirements() > 0 {
		return x.selecting[i.key()]
	}
	f := x.whole[i.Scope]
	for f != nil && f.Interest.Projection != i.Projection {
		f = f.sibling
	}
	return f
}

// all returns all feeds.
func (x *index) all() iter.Seq[*Feed] {
	return func(yield func(*Feed) bool) {
		for _, f := range x.whole {
			if !eachSibling(f, yield) {
				return
			}
		}
		for _, f := range x.selecting {
			if !yield(f) {
				return
			}
		}
	}
}

// keyOf returns the key under which the index lists the feed of an interest with a selector. If there are
// several keys, it returns the key with the fewest feeds. For the selector env=prod,node=n17,
// this is probably the key of node=n17, because fewer feeds require it than require env=prod.
func (x *index) keyOf(i *Interest) indexKey {
	best := indexKey{scope: i.Scope, field: noField}
	choose := func(k indexKey) {
		if best.field == noField || len(x.required[k]) < len(x.required[best]) {
			best = k
		}
	}
	for _, c := range i.Selector.Conditions() {
		switch {
		case c.Not:
		case c.Index == selector.KeyIndex:
			return indexKey{scope: object.ExactKey(object.Key(c.Value)), field: noField}
		case slices.Contains(x.fields, c.Index):
			choose(indexKey{scope: i.Scope, field: c.Index, value: c.Value})
		}
	}
	for label, value := range i.Selector.Labels() {
		choose(indexKey{scope: i.Scope, field: labelField, label: label, value: value})
	}
	return best
}

// IndexDecides reports whether the index alone decides which changes concern an interest. If
// not, the feed evaluates the selector of the interest for each change that the index
// yields. At worst, these are all changes in the scope of the interest. Any goroutine may call
// IndexDecides.
func (fs *Feeds) IndexDecides(i *Interest) bool {
	switch i.Selector.Requirements() {
	case 0:
		return true
	case 1:
		for range i.Selector.Labels() {
			return true
		}
		for _, c := range i.Selector.Conditions() {
			return !c.Not && (c.Index == selector.KeyIndex || slices.Contains(fs.index.fields, c.Index))
		}
	}
	return false
}

func (x *index) add(f *Feed) {
	x.size++
	if scope := f.Interest.Scope; f.Interest.Selector.Requirements() == 0 {
		f.sibling = x.whole[scope]
		x.whole[scope] = f
		return
	}
	k := x.keyOf(&f.Interest)
	f.key = &k
	x.selecting[f.Interest.key()] = f
	x.required[k] = append(x.required[k], f)
	x.count(k, 1)
}

func (x *index) remove(f *Feed) {
	x.size--
	if f.key == nil {
		x.removeWhole(f)
		return
	}
	delete(x.selecting, f.Interest.key())
	k := *f.key
	i := slices.Index(x.required[k], f)
	if rest := slices.Delete(x.required[k], i, i+1); len(rest) > 0 {
		x.required[k] = rest
	} else {
		delete(x.required, k)
	}
	x.count(k, -1)
}

func (x *index) removeWhole(f *Feed) {
	scope := f.Interest.Scope
	first := x.whole[scope]
	for at := &first; *at != nil; at = &(*at).sibling {
		if *at == f {
			*at = f.sibling
			break
		}
	}
	if first == nil {
		delete(x.whole, scope)
	} else {
		x.whole[scope] = first
	}
}

func (x *index) count(k indexKey, n int) {
	switch k.field {
	case noField:
		x.scoped += n
	case labelField:
		x.labelled += n
	default:
		x.fielded += n
	}
}

// concerned returns the feeds that a change may concern, without repetitions.
func (x *index) concerned(c *object.Change) iter.Seq[*Feed] {
	return func(yield func(*Feed) bool) {
		for scope := range object.ScopesOf(c.Key) {
			if !eachSibling(x.whole[scope], yield) {
				return
			}
			if x.scoped > 0 && !each(x.required[indexKey{scope: scope, field: noField}], yield) {
				return
			}
			if x.fielded > 0 {
				for _, field := range x.fields {
					for value := range values(c, field) {
						if !each(x.required[indexKey{scope: scope, field: field, value: value}], yield) {
							return
						}
					}
				}
			}
			if x.labelled > 0 {
				for label, value := range labels(c) {
					if !each(x.required[indexKey{scope: scope, field: labelField, label: label, value: value}], yield) {
						return
					}
				}
			}
		}
	}
}

func each(feeds []*Feed, yield func(*Feed) bool) bool {
	for _, f := range feeds {
		if !yield(f) {
			return false
		}
	}
	return true
}

func eachSibling(f *Feed, yield func(*Feed) bool) bool {
	for ; f != nil; f = f.sibling {
		if !yield(f) {
			return false
		}
	}
	return true
}

// values returns the distinct values of a field before and after a change.
func values(c *object.Change, field int) iter.Seq[string] {
	return func(yield func(string) bool) {
		if c.Old == nil {
			yield(selector.FieldValue(c.New, field))
			return
		}
		before := selector.FieldValue(c.Old, field)
		if !yield(before) || c.New == nil {
			return
		}
		if after := selector.FieldValue(c.New, field); after != before {
			yield(after)
		}
	}
}

// labels returns the labels with their distinct values before and after a change.
func labels(c *object.Change) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if c.Old != nil {
			for label, value := range c.Old.Labels() {
				if !yield(label, value) {
					return
				}
			}
		}
		if c.New == nil {
			return
		}
		for label, value := range c.New.Labels() {
			if c.Old != nil {
				if before, ok := c.Old.Labels()[label]; ok && before == value {
					continue
				}
			}
			if !yield(label, value) {
				return
			}
		}
	}
}
