package policy

import (
	"errors"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Question asks whether a caller may apply a verb to a part of a resource.
type Question struct {
	Verb     Verb
	Resource string
	Scope    object.Scope
}

// String returns the question as the end of a sentence that begins with "may", such as
// `get key "a/b" of resource "config"`.
func (q Question) String() string {
	if key, ok := q.Scope.Key(); ok {
		return fmt.Sprintf("%s key %q of resource %q", q.Verb, key, q.Resource)
	}
	if prefix, ok := q.Scope.Prefix(); ok {
		return fmt.Sprintf("%s prefix %q of resource %q", q.Verb, prefix, q.Resource)
	}
	return fmt.Sprintf("%s resource %q", q.Verb, q.Resource)
}

// ParseQuestion returns a question about a key or a prefix of a resource, or about the
// whole resource if both are empty.
func ParseQuestion(verb, resource, key, prefix string) (q Question, err error) {
	q.Resource = resource
	if q.Verb, err = ParseVerb(verb); err != nil {
		return Question{}, err
	}
	switch {
	case key != "" && prefix != "":
		return Question{}, errors.New("a question is about a key or a prefix, not both")
	case key != "":
		q.Scope, err = object.ParseKeyScope(key)
	case prefix != "":
		q.Scope, err = object.ParsePrefix(prefix)
	}
	return q, err
}
