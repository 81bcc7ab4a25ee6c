package selector

import (
	"fmt"
	"slices"
	"strconv"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fanoutd/fanoutd/internal/object"
)

// This file matches selectors itself instead of using Kubernetes' functions, which check
// every requirement and every value for each object. Here all requirements of one label or
// field are compiled into one test of its value, and the requirements of missing labels are
// precomputed. Matching a selector with 128 requirements therefore costs no more than the
// number of labels of the object.

// values is the set of values that a selector allows. The zero value allows any string.
type values struct {
	limited bool     // only the values in in are allowed
	in, out []string // allowed and forbidden values, sorted
}

// require allows only some of the values, which are sorted.
func (v *values) require(in []string) {
	if v.limited {
		in = slices.DeleteFunc(slices.Clone(in), func(value string) bool { return !contains(v.in, value) })
	}
	v.in, v.limited = in, true
}

func (v *values) forbid(out []string) {
	v.out = append(v.out, out...)
	slices.Sort(v.out)
}

func (v *values) allow(value string) bool {
	return (!v.limited || contains(v.in, value)) && !contains(v.out, value)
}

func contains(sorted []string, value string) bool {
	if len(sorted) <= 4 { // faster without a search
		return slices.Contains(sorted, value)
	}
	_, found := slices.BinarySearch(sorted, value)
	return found
}

// labelTest combines all requirements of one label.
type labelTest struct {
	key    string
	needed bool // an object without the label does not match
	values values

	above, below *int64 // exclusive bounds of the value as an integer; nil: none
}

// labelTests contains the label tests of a selector. An object matches if all of them pass.
type labelTests struct {
	all    []*labelTest
	byKey  map[string]*labelTest
	needed int // number of tests that fail without their label
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
		if t.needed {
			tests.needed++
		}
	}
	return tests, nil
}

// require adds a requirement to the test.
func (t *labelTest) require(r labels.Requirement) error {
	given := r.Values().List()
	switch r.Operator() {
	case selection.Equals, selection.DoubleEquals, selection.In:
		t.needed = true
		t.values.require(given)
	case selection.NotEquals, selection.NotIn:
		t.values.forbid(given)
	case selection.Exists:
		t.needed = true
	case selection.DoesNotExist:
		t.values.require(nil)
	case selection.GreaterThan, selection.LessThan:
		t.needed = true
		bound, err := strconv.ParseInt(given[0], 10, 64)
		switch {
		case err != nil:
			return fmt.Errorf("compares %q with %q, which is not an integer", t.key, given[0])
		case r.Operator() == selection.GreaterThan && (t.above == nil || bound > *t.above):
			t.above = &bound
		case r.Operator() == selection.LessThan && (t.below == nil || bound < *t.below):
			t.below = &bound
		}
	default:
		return fmt.Errorf("has the unknown operator %q", r.Operator())
	}
	return nil
}

// passes reports whether an object with this value of the label passes the test.
func (t *labelTest) passes(value string) bool {
	if !t.values.allow(value) {
		return false
	}
	if t.above == nil && t.below == nil {
		return true
	}
	n, err := strconv.ParseInt(value, 10, 64)
	return err == nil && (t.above == nil || n > *t.above) && (t.below == nil || n < *t.below)
}

// match iterates over the tests or over the labels, whichever are fewer.
func (t *labelTests) match(has map[string]string) bool {
	if len(t.all) <= len(has) {
		for _, test := range t.all {
			if value, ok := has[test.key]; ok && !test.passes(value) || !ok && test.needed {
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
		if !test.passes(value) {
			return false
		}
		if test.needed {
			passed++
		}
	}
	return passed == t.needed
}

// fieldTest combines all requirements of one field.
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
	return tests
}

func (t *fieldTest) passes(o *object.Object) bool { return t.values.allow(FieldValue(o, t.index)) }
