package validation

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// collect reports the faults that an error of the library stands for, in the order of their places in the value.
// The library walks through maps, so its own order is random, and a report has only the first faults.
func (s *schema) collect(e *jsonschema.ValidationError, value any, found *Violations) {
	for _, one := range s.first(e, value) {
		found.add(one.path, "%s", one.explain())
	}
}

// first returns the first faults that an error of the library stands for.
func (s *schema) first(e *jsonschema.ValidationError, value any) []placed {
	var all []placed
	s.place(e, value, &all)
	slices.SortStableFunc(all, placed.compare)
	return all[:min(len(all), MaxViolations)]
}

// placed is a fault and its place in the value. Explain returns its text, which most faults of a long list do not need.
type placed struct {
	path    []string
	of      *jsonschema.ValidationError
	explain func() string
}

func (p placed) compare(q placed) int {
	return cmp.Or(
		slices.CompareFunc(p.path, q.path, compareNames),
		strings.Compare(p.of.SchemaURL, q.of.SchemaURL),
		slices.Compare(keywordOf(p.of), keywordOf(q.of)),
	)
}

// keywordOf returns the keyword of a schema that a fault is about, with the member that it names.
func keywordOf(e *jsonschema.ValidationError) []string {
	keyword := e.ErrorKind.KeywordPath()
	if k, ok := e.ErrorKind.(*kind.PropertyNames); ok {
		keyword = append(keyword, k.Property)
	}
	return keyword
}

// compareNames compares the names of members. Those of items are numbers.
func compareNames(a, b string) int {
	m, isNumber := strconv.Atoi(a)
	n, err := strconv.Atoi(b)
	if isNumber == nil && err == nil && m != n {
		return cmp.Compare(m, n)
	}
	return strings.Compare(a, b)
}

// place appends the faults that an error of the library stands for.
func (s *schema) place(e *jsonschema.ValidationError, value any, all *[]placed) {
	at := e.InstanceLocation
	add := func(path []string, explain func() string) { *all = append(*all, placed{path, e, explain}) }
	each := func(names []string, text func() string) {
		for _, name := range names[:min(len(names), MaxViolations)] {
			add(append(slices.Clone(at), name), text)
		}
	}
	switch k := e.ErrorKind.(type) {
	case *kind.Group, *kind.Schema, *kind.Reference, *kind.AllOf:
		for _, cause := range e.Causes {
			s.place(cause, value, all)
		}
	case *kind.Required:
		each(k.Missing, func() string { return "is required, but missing" })
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		each(k.Properties, func() string {
			if allowed := s.members[e.SchemaURL]; allowed != "" {
				return "is not allowed here; allowed are " + allowed
			}
			return "is not allowed here"
		})
	case *kind.AnyOf:
		add(at, func() string { return s.closest(e, value) })
	case *kind.OneOf:
		add(at, func() string {
			if len(k.Subschemas) > 0 {
				return "must match exactly one of the allowed forms, but matches several"
			}
			return s.closest(e, value)
		})
	default:
		add(at, func() string {
			given, _ := lookup(value, pointerTo(at))
			return explain(e.ErrorKind, given)
		})
	}
}

// closest says that a value has none of several forms, with the fault of the form that has the fewest.
func (s *schema) closest(e *jsonschema.ValidationError, value any) string {
	faults := s.best(e, value)
	if len(faults) == 0 {
		return "must match one of the allowed forms, but matches none"
	}
	where := ""
	if at := pointerTo(faults[0].path); at != pointerTo(e.InstanceLocation) {
		where = clip(at, maxPointerBytes) + " "
	}
	return fmt.Sprintf("matches none of the %d allowed forms; for the closest, %s%s", len(e.Causes), where, faults[0].explain())
}

// best returns the first faults of the form that has the fewest. If several have as few, it is that with a fault
// deepest inside of the value, because the outer part of the value has that form.
func (s *schema) best(e *jsonschema.ValidationError, value any) (best []placed) {
	for _, cause := range e.Causes {
		faults := s.first(cause, value)
		switch {
		case len(faults) == 0:
		case best == nil, len(faults) < len(best), len(faults) == len(best) && len(faults[0].path) > len(best[0].path):
			best = faults
		}
	}
	return best
}

// lacks says which members must be there because another one is.
func lacks(has string, missing []string) string {
	return fmt.Sprintf("has %s, so it must have %s as well", clip(has, maxGivenBytes), clip(strings.Join(missing[:min(len(missing), MaxViolations)], ", "), maxMessageBytes/2))
}

var english = message.NewPrinter(language.English)

// explain says what is allowed, and what was given.
func explain(k jsonschema.ErrorKind, value any) string {
	is := given(value)
	bound := func(what string, want *big.Rat) string {
		return fmt.Sprintf("must be %s %s, is %s", what, number(want), is)
	}
	switch k := k.(type) {
	case *kind.Type:
		return fmt.Sprintf("must be %s, is %s", strings.Join(k.Want, " or "), is)
	case *kind.Enum:
		return fmt.Sprintf("must be one of %s; is %s", clip(list(k.Want), maxMessageBytes/2), is)
	case *kind.Const:
		return fmt.Sprintf("must be %s, is %s", given(k.Want), is)
	case *kind.Format:
		return fmt.Sprintf("must be a valid %s, is %s", k.Want, is)
	case *kind.Minimum:
		return bound("at least", k.Want)
	case *kind.Maximum:
		return bound("at most", k.Want)
	case *kind.ExclusiveMinimum:
		return bound("more than", k.Want)
	case *kind.ExclusiveMaximum:
		return bound("less than", k.Want)
	case *kind.MultipleOf:
		return bound("a multiple of", k.Want)
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters, has %d", k.Want, k.Got)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters, has %d", k.Want, k.Got)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d items, has %d", k.Want, k.Got)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d items, has %d", k.Want, k.Got)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d members, has %d", k.Want, k.Got)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d members, has %d", k.Want, k.Got)
	case *kind.Pattern:
		return fmt.Sprintf("must match the pattern %s, is %s", clip(k.Want, maxMessageBytes/2), is)
	case *kind.UniqueItems:
		return fmt.Sprintf("must have distinct items, but items %d and %d are equal", k.Duplicates[0], k.Duplicates[1])
	case *kind.DependentRequired:
		return lacks(k.Prop, k.Missing)
	case *kind.Dependency:
		return lacks(k.Prop, k.Missing)
	case *kind.FalseSchema:
		return "is not allowed here, is " + is
	case *kind.Not:
		return "must not match the form that the schema excludes, is " + is
	case *kind.PropertyNames:
		return fmt.Sprintf("has the member %q, whose name is not allowed", clip(k.Property, maxGivenBytes))
	}
	return clip(k.LocalizedString(english), maxMessageBytes)
}
