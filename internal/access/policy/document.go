package policy

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// document walks through a YAML file and collects all that is wrong with it. It takes
// mappings, lists and texts for what they are, and nothing else: no value is turned
// into one of another kind, and aliases are refused, because what a policy says should
// stand where it is said.
type document struct {
	file     string
	problems Problems
}

// open returns what the file consists of, or nil where that cannot be told.
func (d *document) open(data []byte) ast.Node {
	if !utf8.Valid(data) {
		d.refuse(nil, "not UTF-8 text")
		return nil
	}
	tree, err := parser.ParseBytes(data, 0)
	if yamlErr, ok := errors.AsType[yaml.Error](err); ok {
		d.refuse(yamlErr.GetToken(), "%s", yamlErr.GetMessage())
		if t := yamlErr.GetToken(); t != nil && (t.Type == token.AliasType || t.Prev != nil && t.Prev.Type == token.AliasType) {
			d.refuse(t, `write "*" in quotes`)
		}
		return nil
	} else if err != nil {
		d.refuse(nil, "%v", err)
		return nil
	}
	if len(tree.Docs) > 1 {
		d.refuse(tree.Docs[1].Start, "there must be only one document")
		return nil
	}
	if len(tree.Docs) == 0 || tree.Docs[0].Body == nil || tree.Docs[0].Body.Type() == ast.NullType {
		// A file that is being written must not be taken for one that grants nothing.
		d.refuse(nil, `is empty; "rules: []" grants nothing to anybody`)
		return nil
	}
	return tree.Docs[0].Body
}

func (d *document) refuse(at *token.Token, format string, args ...any) {
	p := Problem{File: d.file, Message: fmt.Sprintf(format, args...)}
	if at != nil && at.Position != nil {
		p.Line, p.Column = at.Position.Line, at.Position.Column
	}
	d.problems = append(d.problems, p)
}

// fields calls the function of each field that a mapping has, and refuses others.
func (d *document) fields(n ast.Node, known map[string]func(ast.Node)) {
	for name, value := range d.entries(n) {
		if use, ok := known[name.text]; ok {
			use(value)
		} else {
			d.refuse(name.at, "unknown field %q, there are %s", name.text, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
}

// word is a text, and where it stands.
type word struct {
	text string
	at   *token.Token
}

// entries returns what a mapping has by name.
func (d *document) entries(n ast.Node) func(yield func(word, ast.Node) bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.refuse(start(n), "must be fields with values")
		return func(func(word, ast.Node) bool) {}
	}
	return func(yield func(word, ast.Node) bool) {
		for _, v := range m.Values {
			if name, ok := d.word(v.Key); ok && !yield(name, v.Value) {
				return
			}
		}
	}
}

// list returns the items of a list that is not empty.
func (d *document) list(n ast.Node) []ast.Node {
	s, ok := n.(*ast.SequenceNode)
	switch {
	case !ok:
		d.refuse(start(n), "must be a list")
		return nil
	case len(s.Values) == 0:
		d.refuse(start(n), "must not be an empty list")
	}
	return s.Values
}

// words returns the texts of a list.
func (d *document) words(n ast.Node) []word {
	var all []word
	for _, item := range d.list(n) {
		if w, ok := d.word(item); ok {
			all = append(all, w)
		}
	}
	return all
}

func (d *document) word(n ast.Node) (word, bool) {
	s, ok := n.(*ast.StringNode)
	if !ok {
		d.refuse(start(n), "must be text, in quotes where it could be taken for something else")
		return word{}, false
	}
	return word{s.Value, s.GetToken()}, true
}

// start returns the token with which a node begins.
func start(n ast.Node) *token.Token {
	// The token of a mapping is its first colon.
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}
