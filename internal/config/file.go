package config

import (
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// File is a configuration file that has been read.
type File struct {
	name string
	tree *ast.File
}

// ReadFile parses the content of a configuration file on top of the defaults. Name is the name
// of the file in messages. Errors are [Problems] with positions in the file. ReadFile does not
// validate the values: call [Config.Problems], and [File.Locate] with its result.
func ReadFile(name string, data []byte) (Config, *File, error) {
	c, f := Defaults(), &File{name: name}
	if !utf8.Valid(data) {
		return c, nil, Problems{{Origin: name, Message: "not UTF-8 text"}}
	}
	var err error
	if f.tree, err = parser.ParseBytes(data, 0); err != nil {
		return c, nil, f.problem(err)
	}
	if len(f.tree.Docs) > 1 {
		return c, nil, Problems{{Origin: f.position(f.tree.Docs[1].Start), Message: "only one document is allowed"}}
	}
	if f.isEmpty() {
		return c, f, nil
	}
	if problems := f.nulls(); len(problems) > 0 {
		return c, nil, problems
	}
	// A list in the file replaces the default.
	c.Resources = nil
	if err := yaml.UnmarshalWithOptions(data, &c, yaml.Strict()); err != nil {
		return c, nil, f.problem(err)
	}
	if c.Resources == nil {
		c.Resources = Defaults().Resources
	}
	for i := range c.Resources {
		c.Resources[i].fill()
	}
	return c, f, nil
}

// Locate sets the origin of problems without one to the position of the key in the file. If
// the key is missing, it uses the position of its parent.
func (f *File) Locate(ps Problems) Problems {
	for i, p := range ps {
		for key := p.Key; ps[i].Origin == "" && key != ""; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
			ps[i].Origin = f.find(key)
		}
	}
	return ps
}

// find returns the position of a key in the file, or "".
func (f *File) find(key string) string {
	path, err := yaml.PathString("$." + key)
	if err != nil {
		return ""
	}
	node, err := path.FilterFile(f.tree)
	if err != nil || node == nil {
		return ""
	}
	return f.at(node)
}

// isEmpty reports whether the file contains no settings.
func (f *File) isEmpty() bool {
	if len(f.tree.Docs) == 0 {
		return true
	}
	body := f.tree.Docs[0].Body
	return body == nil || body.Type() == ast.NullType
}

// nulls returns a problem for each key and list item without a value. They would be read as
// zero instead of the default.
func (f *File) nulls() Problems {
	var problems Problems
	for _, node := range ast.Filter(ast.NullType, f.tree.Docs[0].Body) {
		problems = append(problems, Problem{Origin: f.at(node), Message: "missing value"})
	}
	return problems
}

// at returns the position of a node.
func (f *File) at(node ast.Node) string {
	// The token of a mapping is its first colon.
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	return f.position(node.GetToken())
}

// position returns the position of a token. Empty nodes have no token.
func (f *File) position(t *token.Token) string {
	if t == nil || t.Position == nil {
		return f.name
	}
	p := t.Position
	return fmt.Sprintf("%s:%d:%d", f.name, p.Line, p.Column)
}

// problem converts an error of the YAML library.
func (f *File) problem(err error) Problems {
	yamlErr, ok := errors.AsType[yaml.Error](err)
	if !ok {
		return Problems{{Origin: f.name, Message: err.Error()}}
	}
	message := yamlErr.GetMessage()
	if t, ok := errors.AsType[*yaml.TypeError](err); ok {
		message = "must be " + kindName(t.DstType) + ", not " + t.Token.Value
	}
	at := yamlErr.GetToken()
	if at != nil && (at.Type == token.AliasType || at.Prev != nil && at.Prev.Type == token.AliasType) {
		message += `; quote values that begin with "*"`
	}
	return Problems{{Origin: f.position(at), Message: message}}
}

func kindName(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Slice:
		return "a list"
	case reflect.Struct:
		return "fields with values"
	}
	return "text"
}
