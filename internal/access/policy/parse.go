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

// Anonymous is what a policy calls those who have not shown who they are. Somebody
// who has, and whose name it is, is not meant.
const Anonymous = "anonymous"

// maxNameBytes bounds how long names of subjects and groups may be; a convention.
const maxNameBytes = 512

// Parse reads a policy file; file is its name in errors, which are [Problems].
func Parse(file string, data []byte) (*Policy, error) {
	p := reader{document: document{file: file}, members: map[string][]word{}}
	if body := p.open(data); body != nil {
		p.body(body)
	}
	if len(p.problems) == 0 {
		if policy, ok := compile(p.rules, p.members); ok {
			return policy, nil
		}
		p.refuse(nil, "is too much: subjects, resources and keys, multiplied in each rule, make more than %d rights", maxRights)
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

// rule is who may do what to which part of which resources.
type rule struct {
	subjects  []word
	groups    []word
	verbs     Verb
	resources []word
	scopes    []object.Scope // none: everything
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
				return // nothing is granted, on purpose
			}
			for _, item := range p.list(n) {
				p.rule(item)
			}
		},
	})
	if !found && len(p.problems) == 0 {
		p.refuse(start(n), `there is no "rules"`)
	}
}

func (p *reader) rule(n ast.Node) {
	var r rule
	before := len(p.problems)
	var admin *word
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
				if r.verbs |= verb; verb == Admin {
					admin = &w
				}
			}
		},
	})
	if admin != nil && narrow {
		p.refuse(admin.at, "admin is a right on whole resources: it takes a rule of its own, without keys and prefixes")
	}
	if len(p.problems) > before {
		return // what is missing may be what was refused
	}
	for _, missing := range []struct {
		what string
		is   bool
	}{
		{`"subjects" and no "groups"`, len(r.subjects)+len(r.groups) == 0},
		{`"verbs"`, r.verbs == none},
		{`"resources"`, len(r.resources) == 0},
	} {
		if missing.is {
			p.refuse(start(n), "the rule has no %s", missing.what)
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

// checked returns the texts of a list, of which each is checked.
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
			return fmt.Errorf("%q: a * stands alone or behind / or :, else it would match names that only begin alike", s)
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

// checkName checks what must be in a name word for word.
func checkName(s, exact string) error {
	switch {
	case strings.Contains(exact, wildcard):
		return fmt.Errorf("%q has a * where it cannot stand for anything", s)
	case len(s) > maxNameBytes:
		return fmt.Errorf("has %d bytes, the limit is %d", len(s), maxNameBytes)
	}
	return nil
}

var resourceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]*$`)

func checkResource(s string) error {
	if s != wildcard && !resourceName.MatchString(s) {
		return fmt.Errorf("%q is not the name of a resource, which has a-z, 0-9 and -; nor is it *", s)
	}
	return nil
}

func parseKey(s string) (object.Scope, error) {
	if strings.HasSuffix(s, "/") || strings.HasSuffix(s, "/*") {
		return object.Scope{}, fmt.Errorf("%q looks like a prefix, which belongs into prefixes", s)
	}
	return object.ParseKeyScope(s)
}

func parsePrefix(s string) (object.Scope, error) {
	if slices.Contains(strings.Split(s, "/"), wildcard) {
		return object.Scope{}, fmt.Errorf("%q has a *, which prefixes do without: they cover all that is below", s)
	}
	if strings.Trim(s, "/") == "" {
		return object.Scope{}, fmt.Errorf("%q is not a prefix; a rule without keys and prefixes is one for the whole resource", s)
	}
	return object.ParsePrefix(s)
}
