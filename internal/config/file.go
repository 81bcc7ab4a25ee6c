package config

import (
	"errors"
	"fmt"
	"reflect"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
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
		return c, nil, Problems{{Origin: f.at(f.tree.Docs[1]), Message: "there must be only one document"}}
	}
	// A list in the file replaces the default.
	c.Resources = nil
	if err := yaml.UnmarshalWithOptions(data, &c, yaml.Strict()); err != nil {
		return c, nil, f.problem(err)
	}
	if c.Resources == nil {
		c.Resources = Defaults().Resources
	}
	c.fill()
	return c, f, nil
}

// Locate completes problems with the position in the file of what is wrong, where
// the file has it and nothing is known about their origin yet.
func (f *File) Locate(ps Problems) Problems {
	for i, p := range ps {
		if p.Origin != "" {
			continue
		}
		path, err := yaml.PathString("$." + p.Key)
		if err != nil {
			continue
		}
		if node, err := path.FilterFile(f.tree); err == nil && node != nil {
			ps[i].Origin = f.at(node)
		}
	}
	return ps
}

func (f *File) at(node ast.Node) string {
	p := node.GetToken().Position
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
	p := yamlErr.GetToken().Position
	return Problems{{Origin: fmt.Sprintf("%s:%d:%d", f.name, p.Line, p.Column), Message: message}}
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
