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

// ReadFile reads a configuration file: the defaults with what data says in their
// place. Name is what errors call the file. They are [Problems] and name line and
// column of what cannot be read; whether the values make sense is checked by
// [Config.Problems], of which the result can be given to [File.Locate].
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
		return c, nil, Problems{{Origin: f.position(f.tree.Docs[1].Start), Message: "there must be only one document"}}
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

// Locate completes problems with the position in the file of what is wrong, where
// nothing is known about their origin yet. What is missing in the file is wrong where
// it should have been.
func (f *File) Locate(ps Problems) Problems {
	for i, p := range ps {
		for key := p.Key; ps[i].Origin == "" && key != ""; key = key[:max(0, strings.LastIndexAny(key, ".["))] {
			ps[i].Origin = f.find(key)
		}
	}
	return ps
}

// find returns where the file sets a key, or nothing.
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

// isEmpty reports whether the file says nothing.
func (f *File) isEmpty() bool {
	if len(f.tree.Docs) == 0 {
		return true
	}
	body := f.tree.Docs[0].Body
	return body == nil || body.Type() == ast.NullType
}

// nulls refuses keys and items without a value: they would be read as zero, not as
// the default.
func (f *File) nulls() Problems {
	var problems Problems
	for _, node := range ast.Filter(ast.NullType, f.tree.Docs[0].Body) {
		problems = append(problems, Problem{Origin: f.at(node), Message: "there is no value"})
	}
	return problems
}

func (f *File) at(node ast.Node) string {
	// The token of a mapping is its first colon.
	if m, ok := node.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		node = m.Values[0].Key
	}
	return f.position(node.GetToken())
}

// position says where a token is, if there is one: parts that are empty have none.
func (f *File) position(t *token.Token) string {
	if t == nil || t.Position == nil {
		return f.name
	}
	p := t.Position
	return fmt.Sprintf("%s:%d:%d", f.name, p.Line, p.Column)
}

// problem puts an error of the YAML library into our form.
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
		message += `; write what begins with "*" in quotes`
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
