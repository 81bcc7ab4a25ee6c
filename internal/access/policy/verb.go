package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is an action on a resource. It is a bit set, so verbs can be combined.
type Verb uint16

// The verbs.
const (
	Get     Verb = 1 << iota // read one object, or check its revision in a transaction
	List                     // read the objects of a scope
	Watch                    // watch the objects of a scope
	Put                      // write an object
	Delete                   // delete an object
	Admin                    // see the status and the watches of a resource, end watches, reencrypt values
	Metrics                  // read the metrics of the server, which concern all resources; Admin includes it
	History                  // read who wrote objects of a scope, when and why, and their old values
	Purge                    // remove the history of an object

	// SkipValidation is needed, besides Put or Delete, for writes that validation rules need not allow.
	SkipValidation

	every Verb = 1<<len(verbNames) - 1
)

// wildcard stands for all subjects, verbs or resources.
const wildcard = "*"

// verbNames are the names of the verbs, in the order of their bits.
var verbNames = [...]string{"get", "list", "watch", "put", "delete", "admin", "metrics", "history", "purge", "skip-validation"}

// Verbs returns all verbs, each on its own.
func Verbs() []Verb {
	verbs := make([]Verb, len(verbNames))
	for i := range verbs {
		verbs[i] = 1 << i
	}
	return verbs
}

// ParseVerb returns the verb with the name.
func ParseVerb(name string) (Verb, error) {
	i := slices.Index(verbNames[:], name)
	if i < 0 {
		return 0, fmt.Errorf("unknown verb %q (want %s)", name, strings.Join(verbNames[:], ", "))
	}
	return 1 << i, nil
}

// String returns the names of the verbs, separated by commas.
func (v Verb) String() string {
	var names []string
	for i, name := range verbNames {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
