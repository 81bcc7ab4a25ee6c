// Package selector picks objects by their labels and fields, with the syntax and
// the meaning that Kubernetes gives to selectors; its parsers are Kubernetes'.
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

// MaxBytes is the length of the longest selector. It is far beyond what somebody
// writes, and keeps parsing and matching cheap.
const MaxBytes = 4096

// MaxRequirements is how many requirements a selector may have: each is looked at
// for each change that it may concern. Kubernetes has no limit of its own.
const MaxRequirements = 128

// The fields that every object has.
const (
	KeyField  = "key"  // its key
	NameField = "name" // the last segment of its key
)

// Selector picks objects. The zero Selector picks all of them.
type Selector struct {
	labels    *labelTests // nil: all
	fields    []fieldTest // all of them have to hold
	required  []Condition // what the fields are tested for
	count     int         // of requirements
	canonical string
}

// Condition is what a selector requires of one field.
type Condition struct {
	Field string
	Value string
	Not   bool // any other value, instead of this one

	Index int // of the field in Object.Fields, or one of the two below
}

// The indexes of the fields that every object has.
const (
	KeyIndex  = -1
	NameIndex = -2
)

// FieldValue returns the value of the field with the index, which is empty where
// the object does not have it.
func FieldValue(o *object.Object, index int) string {
	switch {
	case index == KeyIndex:
		return string(o.Key)
	case index == NameIndex:
		return o.Key.Name()
	case index < len(o.Fields):
		return o.Fields[index]
	}
	return ""
}

// String returns the selector in canonical form: two selectors that were written
// differently and require the same have the same form. It is empty for the
// selector that picks all.
func (s Selector) String() string { return s.canonical }

// Conditions returns what the selector requires of fields.
func (s Selector) Conditions() []Condition { return s.required }

// Requirements returns how many different requirements the selector has.
func (s Selector) Requirements() int { return s.count }

// Labels returns the labels of which the selector requires one value each, and those.
func (s Selector) Labels() iter.Seq2[string, string] {
	return func(yield func(string, string) bool) {
		if s.labels == nil {
			return
		}
		for _, t := range s.labels.all {
			if t.values.limited && len(t.values.inSet.few) == 1 && !yield(t.key, t.values.inSet.few[0]) {
				return
			}
		}
	}
}

// Matches reports whether the selector picks the object.
func (s Selector) Matches(o *object.Object) bool {
	for i := range s.fields {
		if !s.fields[i].holds(o) {
			return false
		}
	}
	return s.labels == nil || s.labels.match(o.Labels)
}

// And returns the selector that picks what both pick: one of labels and one of
// fields.
func And(ofLabels, ofFields Selector) Selector {
	s := Selector{labels: ofLabels.labels, fields: ofFields.fields, required: ofFields.required, count: ofLabels.count + ofFields.count}
	if ofLabels.canonical != "" || ofFields.canonical != "" {
		// Neither can have a semicolon outside of a value, and values of labels
		// cannot have one at all.
		s.canonical = ofLabels.canonical + ";" + ofFields.canonical
	}
	return s
}

// ParseLabels returns the selector of labels that text says: requirements with
// commas between them, each of which is one of
//
//	a=b  a==b  a!=b  a in (b,c)  a notin (b,c)  a  !a
//
// An absent label satisfies !=, notin and !a. Empty text picks all objects.
func ParseLabels(text string) (Selector, error) {
	if err := checkText(text); err != nil {
		return Selector{}, err
	}
	parsed, err := labels.Parse(text)
	if err != nil {
		return Selector{}, err
	}
	requirements, _ := parsed.Requirements()
	if len(requirements) == 0 {
		return Selector{}, nil
	}
	if err := checkCount(len(requirements)); err != nil {
		return Selector{}, err
	}
	var all labels.Requirements
	var texts []string
	seen := map[string]bool{}
	for _, r := range requirements {
		if r, err = plain(r); err != nil {
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
	return Selector{labels: tests, count: len(all), canonical: strings.Join(texts, ",")}, nil
}

// plain returns the requirement with the plainest operator that says the same.
func plain(r labels.Requirement) (labels.Requirement, error) {
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

// ParseFields returns the selector of fields that text says: a=b, a==b and a!=b,
// with commas between them and a backslash before a comma, an equals sign or a
// backslash that belongs to a value. An absent field has the empty value. Besides
// the declared fields there are "key" and "name".
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
	var s Selector
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
	return s, nil
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
