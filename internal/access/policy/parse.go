package policy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Anonymous is the subject of callers that have not authenticated. An authenticated
// caller of that name does not match it.
const Anonymous = "anonymous"

// maxNameBytes is the maximum length of the names of subjects and groups, by convention.
const maxNameBytes = 512

// Parse reads a policy file. file is its name in errors. The error is of type
// [Problems].
func Parse(file string, data []byte) (*Policy, error) {
	p := reader{document: document{file: file}, members: map[string][]word{}}
	if body := p.open(data); body != nil {
		p.body(body)
	}
	if len(p.problems) == 0 {
		if policy, ok := compile(p.rules, p.members); ok {
			return policy, nil
		}
		p.refuse(nil, "too many rights: subjects times resources times keys, summed over all rules, exceed %d", maxRights)
	}
	p.problems.sort()
	return nil, p.problems
}

// reader turns a document into rules.
type reader struct {
	document
	members map[string][]word // by group
	rules   []rule
}

// rule is one rule of the file.
type rule struct {
	subjects  []word
	groups    []word
	verbs     Verb
	resources []word
	scopes    []object.Scope
}

func (p *reader) body(n ast.Node) {
	found := false
	p.fields(n, map[string]func(ast.Node){
		"groups": func(n ast.Node) {
			for group, members := range p.entries(n) {
				p.check(group, checkGroup)
				p.members[group.text] = p.checked(members, checkSubject)
			}
		},
		"rules": func(n ast.Node) {
			found = true
			if s, ok := n.(*ast.SequenceNode); ok && len(s.Values) == 0 {
				return // grants nothing, on purpose
			}
			for _, item := range p.list(n) {
				p.rule(item)
			}
		},
	})
	if !found && len(p.problems) == 0 {
		p.refuse(start(n), `"rules" is missing`)
	}
}

func (p *reader) rule(n ast.Node) {
	var r rule
	before := len(p.problems)
	var admin, metrics *word
	narrow := false
	scopes := func(parse func(string) (object.Scope, error)) func(ast.Node) {
		return func(n ast.Node) {
			narrow = true
			for _, w := range p.words(n) {
				scope, err := parse(w.text)
				if err != nil {
					p.refuse(w.at, "%v", err)
				}
				r.scopes = append(r.scopes, scope)
			}
		}
	}
	p.fields(n, map[string]func(ast.Node){
		"subjects":  func(n ast.Node) { r.subjects = p.checked(n, checkSubject) },
		"groups":    func(n ast.Node) { r.groups = p.checked(n, checkGroup) },
		"resources": func(n ast.Node) { r.resources = p.checked(n, checkResource) },
		"keys":      scopes(parseKey),
		"prefixes":  scopes(parsePrefix),
		"verbs": func(n ast.Node) {
			for _, w := range p.words(n) {
				verb := p.verb(w)
				switch r.verbs |= verb; verb {
				case Admin:
					admin = &w
					r.verbs |= Metrics
				case Metrics:
					metrics = &w
				}
			}
		},
	})
	if admin != nil && narrow {
		p.refuse(admin.at, "admin applies to whole resources: move it to a rule without keys and prefixes")
	}
	if metrics != nil && (narrow || !slices.ContainsFunc(r.resources, func(w word) bool { return w.text == wildcard })) {
		p.refuse(metrics.at, `metrics applies to the whole server: move it to a rule with the resource "*", without keys and prefixes`)
	}
	if len(p.problems) > before {
		return // a missing field may be one that was refused
	}
	for _, field := range []struct {
		name    string
		missing bool
	}{
		{`"subjects" and no "groups"`, len(r.subjects)+len(r.groups) == 0},
		{`"verbs"`, r.verbs == none},
		{`"resources"`, len(r.resources) == 0},
	} {
		if field.missing {
			p.refuse(start(n), "the rule has no %s", field.name)
		}
	}
	if !narrow {
		r.scopes = []object.Scope{{}}
	}
	p.rules = append(p.rules, r)
}

func (p *reader) verb(w word) Verb {
	if w.text == wildcard {
		return every
	}
	verb, err := ParseVerb(w.text)
	if err != nil {
		p.refuse(w.at, "%v", err)
	}
	return verb
}

// checked returns the strings of a list after it has checked each of them.
func (p *reader) checked(n ast.Node, check func(string) error) []word {
	all := p.words(n)
	for _, w := range all {
		p.check(w, check)
	}
	return all
}

func (p *reader) check(w word, check func(string) error) {
	if err := check(w.text); err != nil {
		p.refuse(w.at, "%v", err)
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
