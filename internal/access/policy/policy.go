package policy

import (
	"github.com/fanoutd/fanoutd/internal/access"
)

// Policy is who may do what. It does not change; any number of goroutines may ask.
// Nil, which is no policy, grants everything.
type Policy struct {
	names     map[string]rights // of callers with exactly this name
	families  map[string]rights // of callers whose names begin like this
	longest   int               // of the beginnings, in bytes
	groups    map[string]rights // of callers who say that they belong to it
	anonymous rights            // of callers who have not shown who they are

	resources []string // that it names, in order
}

// rights are what some callers may do: their own and those of groups that they are
// members of. One of them has to grant what is asked.
type rights []grants

// grants are what may be done, by resource; [wildcard] stands for all of them.
type grants map[string]*tree

// Resources returns the names of resources that the policy speaks of, in order.
func (p *Policy) Resources() []string { return p.resources }

// AdmitsAnonymous reports whether there is something that callers may do who have not
// shown who they are. No policy is not meant for them.
func (p *Policy) AdmitsAnonymous() bool { return p != nil && len(p.anonymous) > 0 }

// Grants reports whether the caller may do what is asked. It takes about a
// microsecond or less, however many rules there are.
func (p *Policy) Grants(caller access.Identity, q Question) bool {
	switch {
	case p == nil:
		return true
	case caller.Anonymous():
		return p.anonymous.grant(q) // whatever it says its name and groups are
	case p.names[caller.Name].grant(q), p.families[""].grant(q):
		return true
	}
	for i := range min(len(caller.Name), p.longest) {
		if endsFamily(caller.Name[i]) && p.families[caller.Name[:i+1]].grant(q) {
			return true
		}
	}
	for _, group := range caller.Groups {
		if p.groups[group].grant(q) {
			return true
		}
	}
	return false
}

func (r rights) grant(q Question) bool {
	for _, g := range r {
		for _, resource := range [...]string{q.Resource, wildcard} {
			if t := g[resource]; t != nil && t.grants(q.Verb, q.Scope) {
				return true
			}
		}
	}
	return false
}

// endsFamily reports whether what names have in common may end in b.
func endsFamily(b byte) bool { return b == '/' || b == ':' }
