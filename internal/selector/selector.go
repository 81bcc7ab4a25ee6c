// Package selector selects objects by labels and fields, with the syntax and the semantics of
// Kubernetes.
//
// [ParseLabels] and [ParseFields] parse selectors with Kubernetes' parsers and compile them
// for fast matching. [And] combines both kinds. Selectors with the same meaning have the same
// canonical form, [Selector.String], so that watches with equal selectors share work. A
// Selector is immutable and may be used from any goroutine.
package selector

import (
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"

	"github.com/fanoutd/fanoutd/internal/object"
)

// MaxBytes is the maximum length of a selector. It far exceeds normal use, and keeps parsing
// and matching cheap.
const MaxBytes = 4096

// MaxRequirements is the maximum number of requirements of a selector, because matching
// checks them for each change. Kubernetes has no such limit.
const MaxRequirements = 128

// The fields that every object has.
const (
	KeyField  = "key"  // its key
	NameField = "name" // the last segment of its key
)

// Selector selects objects. The zero Selector matches all objects.
type Selector struct {
	*compiled // nil: no requirements
}

// compiled has the requirements of a selector in the form in which they are tested.
type compiled struct {
	labels    *labelTests // nil: no label requirements
	fields    []fieldTest // an object matches if all of them pass
	required  []Condition // the requirements of fields
	count     int         // number of distinct requirements
	canonical string
}

// Condition is one requirement of a field.
type Condition struct {
	Field string
	Value string
	Not   bool // require any other value

	Index int // index in Object.Fields, KeyIndex or NameIndex
}

// The indexes of the fields that every object has.
const (
	KeyIndex  = -1
	NameIndex = -2
)

// FieldValue returns the value of the field with the index. It is empty if the object does
// not have the field.
func FieldValue(o *object.Object, index int) string {
	switch {
	case index == KeyIndex:
		return string(o.Key)
	case index == NameIndex:
		return o.Key.Name()
	}
	if fields := o.Fields(); index < len(fields) {
		return fields[index]
	}
	return ""
}

// none has no requirements.
var none compiled

// parts returns the requirements.
func (s Selector) parts() *compiled {
	if s.compiled == nil {
		return &none
	}
	return s.compiled
}

// String returns the canonical form of the selector. Selectors with the same requirements
// have the same form, however they were written. The form of the zero Selector is empty.
func (s Selector) String() string { return s.parts().canonical }

// Conditions returns the requirements of fields.
func (s Selector) Conditions() []Condition { return s.parts().required }

// Requirements returns the number of distinct requirements.
func (s Selector) Requirements() int { return s.parts().count }

// Labels returns the labels that must have one particular value, and these values.
func (s Selector) Labels() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if s.compiled == nil || s.labels == nil {
			return
		}
		for _, t := range s.labels.all {
			if t.values.limited && len(t.values.in) == 1 && !yield(t.key, t.values.in[0]) {
				return
			}
		}
	}
}

// Matches reports whether the object matches the selector.
func (s Selector) Matches(o *object.Object) bool {
	if s.compiled == nil {
		return true
	}
	for i := range s.fields {
		if !s.fields[i].passes(o) {
			return false
		}
	}
	return s.labels == nil || s.labels.match(o.Labels())
}

// And returns the conjunction of a selector of labels and a selector of fields.
func And(ofLabels, ofFields Selector) Selector {
	l, f := ofLabels.parts(), ofFields.parts()
	if l.count+f.count == 0 {
		return Selector{}
	}
	// The separator is unambiguous: label selectors contain no semicolon, and field selectors
	// only within values.
	return Selector{&compiled{labels: l.labels, fields: f.fields, required: f.required, count: l.count + f.count, canonical: l.canonical + ";" + f.canonical}}
}

// ParseLabels parses a label selector: requirements separated by commas, each in one of the
// forms
//
//	a=b  a==b  a!=b  a in (b,c)  a notin (b,c)  a  !a  a>1  a<1
//
// A missing label satisfies !=, notin and !a. The operators > and < compare integers; a value
// that is not an integer does not match. The empty text matches all objects.
func ParseLabels(text string) (Selector, error) {
	if err := checkText(text); err != nil {
		return Selector{}, err
	}
	parsed, err := labels.Parse(text)
	if err != nil {
		return Selector{}, err
	}
	requirements, _ := parsed.Requirements()
	if err := checkCount(len(requirements)); err != nil {
		return Selector{}, err
	}
	var all labels.Requirements
	var texts []string
	seen := map[string]bool{}
	for _, r := range requirements {
		if r, err = simplify(r); err != nil {
			return Selector{}, err
		}
		if text := r.String(); !seen[text] {
			seen[text] = true
			all, texts = append(all, r), append(texts, text)
		}
	}
	slices.Sort(texts)
	tests, err := newLabelTests(all)
	if err != nil {
		return Selector{}, err
	}
	return Selector{&compiled{labels: tests, count: len(all), canonical: strings.Join(texts, ",")}}, nil
}

// simplify replaces the operator of a requirement with the simplest equivalent one.
func simplify(r labels.Requirement) (labels.Requirement, error) {
	values := r.Values().List()
	operator := r.Operator()
	switch {
	case operator == selection.DoubleEquals, operator == selection.In && len(values) == 1:
		operator = selection.Equals
	case operator == selection.NotIn && len(values) == 1:
		operator = selection.NotEquals
	default:
		return r, nil
	}
	same, err := labels.NewRequirement(r.Key(), operator, values)
	if err != nil {
		return r, err
	}
	return *same, nil
}

// ParseFields parses a field selector: requirements of the forms a=b, a==b and a!=b, separated
// by commas. In values, a backslash escapes a comma, an equals sign or a backslash. A missing
// field has the empty value. The fields are the declared ones, "key" and "name".
func ParseFields(text string, declared []string) (Selector, error) {
	if err := checkText(text); err != nil {
		return Selector{}, err
	}
	parsed, err := fields.ParseSelector(text)
	if err != nil {
		return Selector{}, err
	}
	if err := checkCount(len(parsed.Requirements())); err != nil {
		return Selector{}, err
	}
	s := &compiled{}
	var canonical []string
	for _, r := range parsed.Requirements() {
		c := Condition{Field: r.Field, Value: r.Value, Not: r.Operator == selection.NotEquals}
		switch c.Index = slices.Index(declared, r.Field); {
		case r.Field == KeyField:
			c.Index = KeyIndex
		case r.Field == NameField:
			c.Index = NameIndex
		case c.Index < 0:
			known := append([]string{KeyField, NameField}, declared...)
			return Selector{}, fmt.Errorf("has the field %q, which is not one of %s", r.Field, strings.Join(known, ", "))
		}
		if slices.Contains(s.required, c) {
			continue
		}
		s.required = append(s.required, c)
		operator := "="
		if c.Not {
			operator = "!="
		}
		canonical = append(canonical, c.Field+operator+fields.EscapeValue(c.Value))
	}
	slices.Sort(canonical)
	s.fields, s.count = newFieldTests(s.required), len(s.required)
	s.canonical = strings.Join(canonical, ",")
	return Selector{s}, nil
}

func checkCount(n int) error {
	if n > MaxRequirements {
		return fmt.Errorf("has %d requirements, the limit is %d", n, MaxRequirements)
	}
	return nil
}

func checkText(text string) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("has %d bytes, the limit is %d", len(text), MaxBytes)
	}
	if !utf8.ValidString(text) {
		return errors.New("is not valid UTF-8")
	}
	return nil
}
