package policy

import (
	"maps"
	"slices"
	"strings"
)

// maxRights bounds the memory of a policy at about a hundred bytes per right. The lists
// of a rule multiply, so a short file could ask for far too many. The limit is a
// convention, far above real policies.
const maxRights = 1_000_000

// compile turns rules into a [Policy]. It returns false if they make more than
// maxRights.
func compile(rules []rule, members map[string][]string) (*Policy, bool) {
	p := &Policy{names: map[string]rights{}, families: map[string]rights{}, groups: map[string]rights{}, filled: map[string]bool{}}
	bySubject, byGroup := map[string]grants{}, map[string]grants{}
	resources := map[string]bool{}
	total := 0
	for _, r := range rules {
		total += (len(r.subjects) + len(r.groups)) * len(r.resources) * len(r.scopes)
		if total > maxRights {
			return nil, false
		}
		for _, resource := range r.resources {
			resources[resource] = true
		}
		for _, subject := range r.subjects {
			r.addTo(bySubject, subject)
		}
		for _, group := range r.groups {
			r.addTo(byGroup, group)
		}
	}
	for subject, g := range bySubject {
		p.give(subject, g)
	}
	for group, g := range byGroup {
		p.groups[group] = rights{g}
		p.filled[group] = len(members[group]) > 0
		for _, member := range members[group] {
			p.give(member, g)
		}
	}
	delete(resources, wildcard)
	p.resources = slices.Sorted(maps.Keys(resources))
	return p, true
}

// addTo adds the rights of the rule to those of a subject or group.
func (r *rule) addTo(all map[string]grants, name string) {
	g := all[name]
	if g == nil {
		g = grants{}
		all[name] = g
	}
	for _, resource := range r.resources {
		t := g[resource]
		if t == nil {
			t = &tree{}
			g[resource] = t
		}
		for _, scope := range r.scopes {
			t.add(r.verbs, scope)
		}
	}
}

// give adds rights to those of a subject.
func (p *Policy) give(subject string, g grants) {
	if subject == Anonymous {
		p.anonymous = append(p.anonymous, g)
		return
	}
	if family, ok := strings.CutSuffix(subject, wildcard); ok {
		p.families[family] = append(p.families[family], g)
		return
	}
	p.names[subject] = append(p.names[subject], g)
}
