package yamlfile

import (
	"cmp"
	"encoding"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

const nullTag = "!!null"

// CheckJSON checks a node that will be converted to JSON and decoded into a type. As in JSON, null means
// no value, and a number is not a string. The error is of type [Problems].
func CheckJSON(n *yaml.Node, t reflect.Type) error {
	c := checker{json: true}
	c.check(n, t, "")
	if len(c.problems) == 0 {
		return nil
	}
	return c.problems
}

// checker collects the problems of nodes that will be decoded into Go values.
type checker struct {
	json     bool
	root     map[string]reflect.Type // the fields of the first struct
	problems Problems
}

// refuse adds a problem. It has a key if there may be no place, because the input is JSON.
func (c *checker) refuse(n *yaml.Node, key, format string, args ...any) {
	p := At(n, format, args...)
	if c.json {
		p.Key = strings.TrimPrefix(key, ".")
	}
	c.problems = append(c.problems, p)
}

// check checks a node that will be decoded into a type.
func (c *checker) check(n *yaml.Node, t reflect.Type, key string) {
	if t == reflect.TypeFor[yaml.Node]() || t == reflect.TypeFor[json.RawMessage]() {
		return // decoded later
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	n = resolve(n)
	tag := n.ShortTag()
	want, tags := kindOf(t)
	isText := want == "a string" && n.Kind == yaml.ScalarNode
	switch {
	case tag == nullTag && c.json:
	case tag == nullTag:
		c.refuse(n, key, "missing value")
	case isText && c.json && slices.Contains([]string{"!!int", "!!float", "!!bool"}, tag):
		c.refuse(n, key, "must be a string, not %s; quote it", n.Value)
	case !isText && !slices.Contains(tags, tag):
		got := map[yaml.Kind]string{yaml.MappingNode: "a mapping", yaml.SequenceNode: "a list"}[n.Kind]
		c.refuse(n, key, "must be %s, not %s", want, cmp.Or(got, n.Value))
	case t.Kind() == reflect.Struct:
		known := fieldsOf(t)
		if c.root == nil {
			c.root = known
		}
		c.fields(n, known, key)
	case want == "a list":
		for i, item := range n.Content {
			c.check(item, t.Elem(), fmt.Sprintf("%s[%d]", key, i))
		}
	case want == "a mapping":
		for entry := range slices.Chunk(n.Content, 2) {
			c.check(entry[1], t.Elem(), key+"."+entry[0].Value)
		}
	}
}

// fields checks a mapping that will be decoded into a struct.
func (c *checker) fields(n *yaml.Node, known map[string]reflect.Type, key string) {
	for field := range slices.Chunk(n.Content, 2) {
		name := field[0]
		t, ok := known[name.Value]
		switch {
		case ok:
			c.check(field[1], t, key+"."+name.Value)
		case name.ShortTag() == "!!merge" && !c.json:
			// The loader checks merged fields.
		default:
			c.refuse(name, key, "unknown field %q%s", name.Value, suggestField(name.Value, known, c.root))
		}
	}
}

// fieldsOf returns the types of the fields of a struct, by their names in a file.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(t) {
		name, option, _ := strings.Cut(cmp.Or(f.Tag.Get("yaml"), f.Tag.Get("json")), ",")
		if option == "inline" {
			maps.Copy(all, fieldsOf(f.Type))
		} else if name != "-" && !f.Anonymous { // the fields of an embedded struct are visible themselves
			all[name] = f.Type
		}
	}
	return all
}

// kindOf returns how messages call the values of a type, and their tags in YAML. A string may have any tag of a scalar.
func kindOf(t reflect.Type) (name string, tags []string) {
	switch kind := t.Kind(); {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), kind == reflect.String, t == reflect.TypeFor[[]byte]():
		return "a string", nil
	case kind == reflect.Struct, kind == reflect.Map:
		return "a mapping", []string{"!!map"}
	case kind == reflect.Slice:
		return "a list", []string{"!!seq"}
	case kind == reflect.Bool:
		return "true or false", []string{"!!bool"}
	case kind == reflect.Float64:
		return "a number", []string{"!!int", "!!float"}
	}
	return "a whole number", []string{"!!int"}
}
