package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// Anonymous is the subject of callers that have not authenticated. An authenticated
// caller of that name does not match it.
const Anonymous = "anonymous"

// maxNameBytes is the maximum length of the names of subjects and groups, by convention.
const maxNameBytes = 512

// Parse reads a policy file. file is its name in errors. The error is of type
// [yamlfile.Problems].
func Parse(file string, data []byte) (*Policy, error) {
	p := reader{File: yamlfile.Open(file, data), members: map[string][]string{}}
	if p.Root != nil {
		p.refuseAliases(p.Root)
	} else if p.Err() == nil {
		// A file that is still being written must not pass for one that grants nothing.
		p.Refuse(nil, `is empty; write "rules: []" to grant nothing`)
	}
	if p.Err() == nil {
		p.body()
	}
	if p.Err() == nil {
		if policy, ok := compile(p.rules, p.members); ok {
			return policy, nil
		}
		p.Refuse(nil, "too many rights: subjects times resources times keys, summed over all rules, exceed %d", maxRights)
	}
	return nil, p.Err()
}

// reader turns a file into rules.
type reader struct {
	*yamlfile.File
	members map[string][]string // by group
	rules   []rule
}

// rule is one rule of the file.
type rule struct {
	subjects  []string
	groups    []string
	verbs     Verb
	resources []string
	scopes    []object.Scope
}

// refuseAliases refuses aliases and merges, because a policy should be readable in place.
func (p *reader) refuseAliases(n *yaml.Node) {
	if n.Kind == yaml.AliasNode || n.ShortTag() == "!!merge" {
		p.Refuse(n, "aliases and merges are not allowed in a policy")
	}
	for _, child := range n.Content {
		p.refuseAliases(child)
	}
}

func (p *reader) body() {
	var fields struct {
		Groups yaml.Node   `yaml:"groups"`
		Rules  []yaml.Node `yaml:"rules"`
	}
	if p.Decode(p.Root, &fields) && fields.Rules == nil {
		p.Refuse(p.Root, `"rules" is missing`)
	}
	if groups := &fields.Groups; !groups.IsZero() && groups.Kind != yaml.MappingNode {
		p.Refuse(groups, "must be a mapping")
	} else {
		for group := range slices.Chunk(groups.Content, 2) {
			p.word(group[0], checkGroup)
			p.members[group[0].Value] = p.words(group[1], checkSubject)
		}
	}
	for _, n := range fields.Rules {
		p.rule(&n)
	}
}

func (p *reader) rule(n *yaml.Node) {
	var fields struct {
		Subjects  yaml.Node `yaml:"subjects"`
		Groups    yaml.Node `yaml:"groups"`
		Verbs     yaml.Node `yaml:"verbs"`
		Resources yaml.Node `yaml:"resources"`
		Keys      yaml.Node `yaml:"keys"`
		Prefixes  yaml.Node `yaml:"prefixes"`
	}
	known := p.Decode(n, &fields)
	r := rule{
		subjects:  p.words(&fields.Subjects, checkSubject),
		groups:    p.words(&fields.Groups, checkGroup),
		resources: p.words(&fields.Resources, checkResource),
	}
	scopes := func(parse func(string) (object.Scope, error)) func(string) error {
		return func(text string) error {
			scope, err := parse(text)
			r.scopes = append(r.scopes, scope)
			return err
		}
	}
	p.words(&fields.Keys, scopes(parseKey))
	p.words(&fields.Prefixes, scopes(parsePrefix))
	p.words(&fields.Verbs, func(name string) error {
		verb, err := parseVerbs(name)
		r.verbs |= verb
		return err
	})
	narrow := !fields.Keys.IsZero() || !fields.Prefixes.IsZero()
	if !narrow {
		r.scopes = []object.Scope{{}}
	}
	for _, verb := range fields.Verbs.Content {
		switch {
		case verb.Value == Admin.String() && narrow:
			p.Refuse(verb, "admin applies to whole resources: move it to a rule without keys and prefixes")
		case verb.Value == Metrics.String() && (narrow || !slices.Contains(r.resources, wildcard)):
			p.Refuse(verb, `metrics applies to the whole server: move it to a rule with the resource "*", without keys and prefixes`)
		}
	}
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{`"subjects" and no "groups"`, fields.Subjects.IsZero() && fields.Groups.IsZero()},
		{`"verbs"`, fields.Verbs.IsZero()},
		{`"resources"`, fields.Resources.IsZero()},
	} {
		if field.missing && known { // otherwise it may be one that was refused
			p.Refuse(n, "the rule has no %s", field.name)
		}
	}
	p.rules = append(p.rules, r)
}

// parseVerbs returns the verbs that a name in a rule stands for.
func parseVerbs(name string) (Verb, error) {
	if name == wildcard {
		return every, nil
	}
	verb, err := ParseVerb(name)
	if verb == Admin {
		verb |= Metrics
	}
	return verb, err
}

// words returns the strings of a list after it has checked each of them. A missing list has none.
func (p *reader) words(n *yaml.Node, check func(string) error) []string {
	switch {
	case n.IsZero():
	case n.Kind != yaml.SequenceNode:
		p.Refuse(n, "must be a list")
		return nil
	case len(n.Content) == 0:
		p.Refuse(n, "must not be an empty list")
	}
	var all []string
	for _, item := range n.Content {
		p.word(item, check)
		all = append(all, item.Value)
	}
	return all
}

func (p *reader) word(n *yaml.Node, check func(string) error) {
	if n.ShortTag() != "!!str" {
		p.Refuse(n, "must be a string; quote it if YAML takes it for something else")
	} else if err := check(n.Value); err != nil {
		p.Refuse(n, "%v", err)
	}
}

func checkSubject(s string) error {
	if family, ok := strings.CutSuffix(s, wildcard); ok && !strings.Contains(family, wildcard) {
		if family != "" && !endsFamily(family[len(family)-1]) {
			return fmt.Errorf("%q: * must stand alone or follow / or :, or it would match unrelated names with the same beginning", s)
		}
		return checkName(s, family)
	}
	return checkGroup(s)
}

func checkGroup(s string) error {
	if s == "" {
		return errors.New("must not be empty")
	}
	return checkName(s, s)
}

// checkName checks a name, of which exact is the part without its trailing wildcard.
func checkName(s, exact string) error {
	switch {
	case strings.Contains(exact, wildcard):
		return fmt.Errorf("%q has a * where it is not a wildcard", s)
	case len(s) > maxNameBytes:
		return fmt.Errorf("has %d bytes, the limit is %d", len(s), maxNameBytes)
	}
	return nil
}

var resourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func checkResource(s string) error {
	if s != wildcard && !resourceName.MatchString(s) {
		return fmt.Errorf("%q is neither the name of a resource (a-z, 0-9 and -) nor *", s)
	}
	return nil
}

func parseKey(s string) (object.Scope, error) {
	if strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/*") {
		return object.Scope{}, fmt.Errorf("%q looks like a prefix; list it under prefixes", s)
	}
	return object.ParseKeyScope(s)
}

func parsePrefix(s string) (object.Scope, error) {
	if slices.Contains(strings.Split(s, "/"), wildcard) {
		return object.Scope{}, fmt.Errorf("%q has a *, which a prefix does not need: it covers everything below it", s)
	}
	if strings.Trim(s, "/") == "" {
		return object.Scope{}, fmt.Errorf("%q is not a prefix; a rule without keys and prefixes covers the whole resource", s)
	}
	return object.ParsePrefix(s)
}
