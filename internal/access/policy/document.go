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

// document walks a YAML file and collects its problems. It accepts mappings, lists and
// strings only: it converts no other values to strings, and it refuses aliases, because
// a policy should be readable in place.
type document struct {
	file     string
	problems Problems
}

// open returns the root node of the file, or nil if the file cannot be parsed.
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
		// A file that is still being written must not pass for one that grants nothing.
		d.refuse(nil, `is empty; write "rules: []" to grant nothing`)
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

// fields calls the function for each field of a mapping, and refuses unknown fields.
func (d *document) fields(n ast.Node, known map[string]func(ast.Node)) {
	for name, value := range d.entries(n) {
		if use, ok := known[name.text]; ok {
			use(value)
		} else {
			d.refuse(name.at, "unknown field %q (want %s)", name.text, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		}
	}
}

// word is a string and its place in the file.
type word struct {
	text string
	at   *token.Token
}

// entries iterates over the fields of a mapping.
func (d *document) entries(n ast.Node) func(yield func(word, ast.Node) bool) {
	m, ok := n.(*ast.MappingNode)
	if !ok {
		d.refuse(start(n), "must be a mapping")
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

// list returns the items of a list, and refuses an empty one.
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

// words returns the strings of a list.
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
		d.refuse(start(n), "must be a string; quote it if YAML takes it for something else")
		return word{}, false
	}
	return word{s.Value, s.GetToken()}, true
}

// start returns the first token of a node.
func start(n ast.Node) *token.Token {
	// The token of a mapping is its first colon.
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		return m.Values[0].Key.GetToken()
	}
	return n.GetToken()
}
