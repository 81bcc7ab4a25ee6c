package policy

import (
	"maps"
	"slices"
	"strings"
)

// maxRights bounds the memory of a policy, at some hundred bytes each: a few long
// lists in one rule multiply. A convention; it is far beyond what anybody writes.
const maxRights = 1_000_000

// compile turns rules into what answers questions fast, or returns false where that
// would be too much.
func compile(rules []rule, members map[string][]word) (*Policy, bool) {
	p := &Policy{names: map[string]rights{}, families: map[string]rights{}, groups: map[string]rights{}}
	bySubject, byGroup := map[string]grants{}, map[string]grants{}
	resources := map[string]bool{}
	total := 0
	for _, r := range rules {
		total += (len(r.subjects) + len(r.groups)) * len(r.resources) * len(r.scopes)
		if total > maxRights {
			return nil, false
		}
		for _, resource := range r.resources {
			resources[resource.text] = true
		}
		for _, subject := range r.subjects {
			r.addTo(bySubject, subject.text)
		}
		for _, group := range r.groups {
			r.addTo(byGroup, group.text)
		}
	}
	for subject, g := range bySubject {
		p.give(subject, g)
	}
	for group, g := range byGroup {
		p.groups[group] = rights{g}
		for _, member := range members[group] {
			p.give(member.text, g)
		}
	}
	delete(resources, wildcard)
	p.resources = slices.Sorted(maps.Keys(resources))
	return p, true
}

// addTo adds what the rule grants to what somebody has.
func (r *rule) addTo(all map[string]grants, who string) {
	g := all[who]
	if g == nil {
		g = grants{}
		all[who] = g
	}
	for _, resource := range r.resources {
		t := g[resource.text]
		if t == nil {
			t = &tree{}
			g[resource.text] = t
		}
		for _, scope := range r.scopes {
			t.add(r.verbs, scope)
		}
	}
}

// give gives rights to those whom a policy calls subject.
func (p *Policy) give(subject string, g grants) {
	if subject == Anonymous {
		p.anonymous = append(p.anonymous, g)
		return
	}
	if family, ok := strings.CutSuffix(subject, wildcard); ok {
		p.families[family] = append(p.families[family], g)
		p.longest = max(p.longest, len(family))
		return
	}
	p.names[subject] = append(p.names[subject], g)
}
