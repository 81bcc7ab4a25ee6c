package policy

import (
	"fmt"
	"slices"
	"strings"
)

// Verb is something that can be done to a resource. Verbs can be added up.
type Verb uint8

// The verbs.
const (
	Get    Verb = 1 << iota // read one object, or have a transaction check its revision
	List                    // read the objects of a scope
	Watch                   // be told of the objects of a scope, and of their changes
	Put                     // write an object
	Delete                  // delete an object
	Admin                   // see how a resource does and who watches it, end watches, have values stored anew

	none  Verb = 0
	every      = Get | List | Watch | Put | Delete | Admin
)

// wildcard stands for everything that there is of a kind.
const wildcard = "*"

// verbNames are the names of the verbs, in the order of their bits.
var verbNames = [...]string{"get", "list", "watch", "put", "delete", "admin"}

// ParseVerb returns the verb of a name.
func ParseVerb(name string) (Verb, error) {
	i := slices.Index(verbNames[:], name)
	if i < 0 {
		return none, fmt.Errorf("%q is not a verb, they are %s", name, strings.Join(verbNames[:], ", "))
	}
	return 1 << i, nil
}

// String returns the name of the verb, or several with commas between them.
func (v Verb) String() string {
	var names []string
	for i, name := range verbNames {
		if v&(1<<i) != 0 {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}
