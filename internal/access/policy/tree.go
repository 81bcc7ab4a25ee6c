package policy

import (
	"strings"

	"github.com/fanoutd/fanoutd/internal/object"
)

// tree holds the verbs granted on one resource, by scope. The cost of a question grows
// with the length of its key or prefix, but not with the number of rules. A hostile key
// is followed only as deep as the rules go.
type tree struct {
	everything Verb // granted on the whole resource
	keys       map[object.Key]Verb
	root       subtree // of the prefixes; its own verbs are unused
}

// subtree holds the verbs granted on all keys below a path.
type subtree struct {
	verbs Verb
	below map[string]*subtree // by the next segment of the path
}

// add grants verbs for a scope.
func (t *tree) add(verbs Verb, scope object.Scope) {
	if key, ok := scope.Key(); ok {
		if t.keys == nil {
			t.keys = map[object.Key]Verb{}
		}
		t.keys[key] |= verbs
		return
	}
	prefix, ok := scope.Prefix()
	if !ok {
		t.everything |= verbs
		return
	}
	at := &t.root
	for segment := range strings.SplitSeq(prefix, "/") {
		next := at.below[segment]
		if next == nil {
			next = &subtree{}
			if at.below == nil {
				at.below = map[string]*subtree{}
			}
			at.below[segment] = next
		}
		at = next
	}
	at.verbs |= verbs
}

// grants reports whether the verb is granted for all of the scope.
func (t *tree) grants(verb Verb, scope object.Scope) bool {
	if t.everything&verb != 0 {
		return true
	}
	if key, ok := scope.Key(); ok {
		return t.keys[key]&verb != 0 || t.root.grants(verb, string(key))
	}
	prefix, ok := scope.Prefix()
	return ok && t.root.grants(verb, prefix+"/")
}

// grants reports whether the verb is granted on a subtree that contains the path. There
// is one candidate per slash in the path.
func (s *subtree) grants(verb Verb, path string) bool {
	for {
		segment, rest, ok := strings.Cut(path, "/")
		if !ok {
			return false
		}
		if s = s.below[segment]; s == nil {
			return false
		}
		if s.verbs&verb != 0 {
			return true
		}
		path = rest
	}
}
