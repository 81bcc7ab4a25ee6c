package policy

import (
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Question is what somebody may or may not do: a verb, to a part of a resource.
type Question struct {
	Verb     Verb
	Resource string
	Scope    object.Scope
}

// String returns the question as the end of a sentence that begins with "may".
func (q Question) String() string {
	if key, ok := q.Scope.Key(); ok {
		return fmt.Sprintf("%s key %q of resource %q", q.Verb, key, q.Resource)
	}
	if prefix, ok := q.Scope.Prefix(); ok {
		return fmt.Sprintf("%s prefix %q of resource %q", q.Verb, prefix, q.Resource)
	}
	return fmt.Sprintf("%s resource %q", q.Verb, q.Resource)
}
