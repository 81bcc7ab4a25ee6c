package dispatch

import (
	"iter"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// index finds the feeds that a change may concern without looking at the others:
// those of the whole resource, of each ancestor path of its key, and of the key;
// and of those which require a value of an indexed field, the ones that require
// the value that the object has or had.
type index struct {
	fields  []int // that are indexed
	feeds   map[place][]*feed
	fielded int // feeds that require a value of an indexed field
}

// place is where a feed is found.
type place struct {
	scope object.Scope
	field int // anyField, or the index of a field of which value is required
	value string
}

// anyField marks the place of feeds that require no value of an indexed field. No
// field has this index.
const anyField = -100

func newIndex(fields []int) index {
	// The name of an object costs nothing to find, so it is always indexed.
	return index{fields: append(slices.Clone(fields), selector.NameIndex), feeds: map[place][]*feed{}}
}

// placeOf returns the one place where an interest is found: where the fewest
// changes come by.
func (x *index) placeOf(i *Interest) place {
	p := place{scope: i.Scope, field: anyField}
	for _, c := range i.Selector.Conditions() {
		switch {
		case c.Not:
		case c.Index == selector.KeyIndex:
			return place{scope: object.ExactKey(object.Key(c.Value)), field: anyField}
		case p.field == anyField && slices.Contains(x.fields, c.Index):
			p.field, p.value = c.Index, c.Value
		}
	}
	return p
}

func (x *index) add(f *feed) {
	p := x.placeOf(&f.interest)
	x.feeds[p] = append(x.feeds[p], f)
	if p.field != anyField {
		x.fielded++
	}
}

func (x *index) remove(f *feed) {
	p := x.placeOf(&f.interest)
	i := slices.Index(x.feeds[p], f)
	if rest := slices.Delete(x.feeds[p], i, i+1); len(rest) > 0 {
		x.feeds[p] = rest
	} else {
		delete(x.feeds, p)
	}
	if p.field != anyField {
		x.fielded--
	}
}

// concerned returns the feeds that a change may concern, each of them once.
func (x *index) concerned(c *object.Change) iter.Seq[*feed] {
	return func(yield func(*feed) bool) {
		for scope := range object.ScopesOf(c.Key) {
			if !each(x.feeds[place{scope: scope, field: anyField}], yield) {
				return
			}
			if x.fielded == 0 {
				continue
			}
			for _, field := range x.fields {
				for value := range values(c, field) {
					if !each(x.feeds[place{scope, field, value}], yield) {
						return
					}
				}
			}
		}
	}
}

func each(feeds []*feed, yield func(*feed) bool) bool {
	for _, f := range feeds {
		if !yield(f) {
			return false
		}
	}
	return true
}

// values returns the different values that a field had before and has after a
// change.
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
