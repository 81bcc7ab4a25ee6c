package dispatch

import (
	"iter"
	"slices"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// index finds the feeds that a change may concern without looking at the others:
// those of the whole resource, of each ancestor path of its key, and of the key;
// and of those which require a value of a label or of an indexed field, the ones that
// require a value that the object has or had.
type index struct {
	fields   []int // that are indexed
	feeds    map[place][]*feed
	fielded  int // feeds that are found by the value of a field
	labelled int // feeds that are found by the value of a label
}

// place is where a feed is found.
type place struct {
	scope object.Scope
	field int    // the index of a field of which value is required, or one of the two below
	label string // of which value is required
	value string
}

// The places of feeds that require no value of an indexed field. No field has these
// indexes.
const (
	anyField = -100
	ofLabel  = -101
)

func newIndex(fields []int) index {
	// The name of an object costs nothing to find, so it is always indexed.
	return index{fields: append(slices.Clone(fields), selector.NameIndex), feeds: map[place][]*feed{}}
}

// placeOf returns the one place where an interest is found: where the fewest others
// are. Of labels such as env=prod and node=n17 the second one comes by less often; that
// it does is seen from the others who require it.
func (x *index) placeOf(i *Interest) place {
	best := place{scope: i.Scope, field: anyField}
	choose := func(p place) {
		if best.field == anyField || len(x.feeds[p]) < len(x.feeds[best]) {
			best = p
		}
	}
	for _, c := range i.Selector.Conditions() {
		switch {
		case c.Not:
		case c.Index == selector.KeyIndex:
			return place{scope: object.ExactKey(object.Key(c.Value)), field: anyField}
		case slices.Contains(x.fields, c.Index):
			choose(place{scope: i.Scope, field: c.Index, value: c.Value})
		}
	}
	for label, value := range i.Selector.Labels() {
		choose(place{scope: i.Scope, field: ofLabel, label: label, value: value})
	}
	return best
}

// decides reports whether whom a change concerns is known from the place alone: such
// an interest costs nothing with the changes that it does not pick, and no two of one
// view are in one place. It may be called at any time.
func (x *index) decides(i *Interest) bool {
	switch i.Selector.Requirements() {
	case 0:
		return true
	case 1:
		for range i.Selector.Labels() {
			return true
		}
		for _, c := range i.Selector.Conditions() {
			return !c.Not && (c.Index == selector.KeyIndex || slices.Contains(x.fields, c.Index))
		}
	}
	return false
}

func (x *index) add(f *feed) {
	f.place = x.placeOf(&f.interest)
	x.feeds[f.place] = append(x.feeds[f.place], f)
	x.count(f.place, 1)
}

func (x *index) remove(f *feed) {
	i := slices.Index(x.feeds[f.place], f)
	if rest := slices.Delete(x.feeds[f.place], i, i+1); len(rest) > 0 {
		x.feeds[f.place] = rest
	} else {
		delete(x.feeds, f.place)
	}
	x.count(f.place, -1)
}

func (x *index) count(p place, n int) {
	switch p.field {
	case anyField:
	case ofLabel:
		x.labelled += n
	default:
		x.fielded += n
	}
}

// concerned returns the feeds that a change may concern, each of them once.
func (x *index) concerned(c *object.Change) iter.Seq[*feed] {
	return func(yield func(*feed) bool) {
		for scope := range object.ScopesOf(c.Key) {
			if !each(x.feeds[place{scope: scope, field: anyField}], yield) {
				return
			}
			if x.fielded > 0 {
				for _, field := range x.fields {
					for value := range values(c, field) {
						if !each(x.feeds[place{scope: scope, field: field, value: value}], yield) {
							return
						}
					}
				}
			}
			if x.labelled > 0 {
				for label, value := range labels(c) {
					if !each(x.feeds[place{scope: scope, field: ofLabel, label: label, value: value}], yield) {
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

// labels returns the labels with the different values that they had before and have
// after a change.
func labels(c *object.Change) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if c.Old != nil {
			for label, value := range c.Old.Labels {
				if !yield(label, value) {
					return
				}
			}
		}
		if c.New == nil {
			return
		}
		for label, value := range c.New.Labels {
			if c.Old != nil {
				if before, ok := c.Old.Labels[label]; ok && before == value {
					continue
				}
			}
			if !yield(label, value) {
				return
			}
		}
	}
}
