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

// String returns the question as the end of a sentence that begins with "may not" or "needed to", such as
// `get key "a/b" of resource "config"`.
func (q Question) String() string {
	if q.Verb == Metrics {
		return "read the metrics"
	}
	verb, resource := q.Verb.String(), fmt.Sprintf("resource %q", q.Resource)
	switch q.Verb {
	case Admin:
		verb = "administer"
	case History:
		verb = "read the history of"
	case Purge:
		verb = "purge the history of"
	case SkipValidation:
		verb = "skip the validation of writes to"
	}
	if q.Resource == wildcard {
		resource = "all resources"
	}
	key, isKey := q.Scope.Key()
	prefix, isPrefix := q.Scope.Prefix()
	switch {
	case isKey:
		return fmt.Sprintf("%s key %q of %s", verb, key, resource)
	case isPrefix:
		return fmt.Sprintf("%s the keys below %q of %s", verb, prefix, resource)
	case q.Verb == Admin:
		return verb + " " + resource
	}
	return fmt.Sprintf("%s all keys of %s", verb, resource)
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
