package selector

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fanoutd/fanoutd/internal/object"
)

// What Kubernetes parses is not matched with its own functions: those look at each
// requirement, and at each value of it, for each object. Here what a selector says of
// one label or field is one test of the value, and what it says of labels that an
// object does not have is known beforehand. So a selector of 128 requirements costs
// no more than the labels that the object has.

// set has values. A few are compared faster than they are looked up.
type set struct {
	few  []string
	many map[string]bool // nil: they are few
}

const few = 4

func newSet(values []string) set {
	if len(values) <= few {
		return set{few: values}
	}
	s := set{many: make(map[string]bool, len(values))}
	for _, value := range values {
		s.many[value] = true
	}
	return s
}

func (s *set) has(value string) bool {
	if s.many != nil {
		return s.many[value]
	}
	return slices.Contains(s.few, value)
}

// values is what a selector requires of a value. The zero values allow any.
type values struct {
	limited bool     // it has to be one of those below
	in, out []string // out: it must not be one of them

	inSet, outSet set // the same, settled
}

func (v *values) require(in []string) {
	if v.limited {
		both := newSet(v.in)
		in = slices.DeleteFunc(slices.Clone(in), func(value string) bool { return !both.has(value) })
	}
	v.in, v.limited = in, true
}

func (v *values) forbid(out []string) { v.out = append(v.out, out...) }

// settle is called when everything was required.
func (v *values) settle() {
	v.inSet, v.outSet = newSet(v.in), newSet(v.out)
	v.in, v.out = nil, nil
}

func (v *values) allow(value string) bool {
	return (!v.limited || v.inSet.has(value)) && !v.outSet.has(value)
}

// labelTest is all that a selector requires of one label.
type labelTest struct {
	key    string
	needed bool // an object without the label is not picked
	banned bool // an object with it is not picked
	values values

	above, below *int64 // as which number it has to be read, and between which
}

// labelTests are the tests of labels of a selector: all of them have to hold.
type labelTests struct {
	all    []*labelTest
	byKey  map[string]*labelTest
	needed int // how many of them an object without the label does not pass
}

func newLabelTests(requirements labels.Requirements) (*labelTests, error) {
	tests := &labelTests{byKey: map[string]*labelTest{}}
	for _, r := range requirements {
		t := tests.byKey[r.Key()]
		if t == nil {
			t = &labelTest{key: r.Key()}
			tests.byKey[t.key] = t
			tests.all = append(tests.all, t)
		}
		if err := t.require(r); err != nil {
			return nil, err
		}
	}
	for _, t := range tests.all {
		t.values.settle()
		if t.needed {
			tests.needed++
		}
	}
	return tests, nil
}

// require adds a requirement to the test.
func (t *labelTest) require(r labels.Requirement) error {
	given := r.Values().UnsortedList()
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		t.needed = true
		t.values.require(given)
	case selection.NotEquals, selection.NotIn:
		t.values.forbid(given)
	case selection.Exists:
		t.needed = true
	case selection.DoesNotExist:
		t.banned = true
	case selection.GreaterThan, selection.LessThan:
		t.needed = true
		bound, err := strconv.ParseInt(given[0], 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("compares %q with %q, which is no integer", t.key, given[0])
		case r.Operator() == selection.GreaterThan && (t.above == nil || bound > *t.above):
			t.above = &bound
		case r.Operator() == selection.LessThan && (t.below == nil || bound < *t.below):
			t.below = &bound
		}
	default:
		return fmt.Errorf("has the operator %q, which is not known", r.Operator())
	}
	return nil
}

// holds reports whether an object that has the label passes.
func (t *labelTest) holds(value string) bool {
	if t.banned || !t.values.allow(value) {
		return false
	}
	if t.above == nil && t.below == nil {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (t.above == nil || n > *t.above) && (t.below == nil || n < *t.below)
}

// match looks at the tests or at the labels, whichever are fewer.
func (t *labelTests) match(has map[string]string) bool {
	if len(t.all) <= len(has) {
		for _, test := range t.all {
			if value, ok := has[test.key]; ok && !test.holds(value) || !ok && test.needed {
				return false
			}
		}
		return true
	}
	if t.needed > len(has) {
		return false
	}
	passed := 0
	for key, value := range has {
		test := t.byKey[key]
		if test == nil {
			continue
		}
		if !test.holds(value) {
			return false
		}
		if test.needed {
			passed++
		}
	}
	return passed == t.needed
}

// fieldTest is all that a selector requires of one field.
type fieldTest struct {
	index  int
	values values
}

func newFieldTests(conditions []Condition) []fieldTest {
	var tests []fieldTest
	for _, c := range conditions {
		i := slices.IndexFunc(tests, func(t fieldTest) bool { return t.index == c.Index })
		if i < 0 {
			i = len(tests)
			tests = append(tests, fieldTest{index: c.Index})
		}
		if c.Not {
			tests[i].values.forbid([]string{c.Value})
		} else {
			tests[i].values.require([]string{c.Value})
		}
	}
	for i := range tests {
		tests[i].values.settle()
	}
	return tests
}

func (t *fieldTest) holds(o *object.Object) bool { return t.values.allow(FieldValue(o, t.index)) }
