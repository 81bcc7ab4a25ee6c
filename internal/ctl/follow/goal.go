package follow

import (
	"fmt"
	"slices"

	"github.com/fanoutd/fanoutd/client"
)

// Goal is the state that a watch waits for.
type Goal string

// The goals.
const (
	NoGoal Goal = ""       // watch until stopped
	Exists Goal = "exists" // a matching object exists
	Absent Goal = "absent" // no matching object exists
)

// ParseGoal returns the goal with a name.
func ParseGoal(name string) (Goal, error) {
	switch g := Goal(name); g {
	case NoGoal, Exists, Absent:
		return g, nil
	}
	return "", fmt.Errorf("invalid value %q (want exists or absent)", name)
}

// reached reports whether the goal is reached with an update, after which there are the given objects.
func (g Goal) reached(u *client.Update, objects *client.Copy) bool {
	switch g {
	case Exists: // as soon as the first object is known
		return Present(u) != nil
	case Absent:
		return objects.Synced() && objects.Complete() && objects.Len() == 0
	}
	return false
}

// Present returns the last object that an update reports as existing, or nil.
func Present(u *client.Update) *client.Object {
	gone := map[string]bool{}
	for _, e := range slices.Backward(u.Events) {
		if e.Type == client.Deleted {
			gone[e.Object.Key] = true
		} else if !gone[e.Object.Key] {
			return e.Object
		}
	}
	return nil
}
