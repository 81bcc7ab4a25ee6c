package document

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"
)

// placed is an error with its place in the input.
type placed struct {
	line, column int
	error
}

func (e placed) Unwrap() error { return e.error }

// where returns the place of an error, or otherwise if the error does not have one.
func where(err error, otherwise string) string {
	if e, ok := errors.AsType[placed](err); ok {
		return fmt.Sprintf("line %d, column %d", e.line, e.column)
	}
	return otherwise
}

// at returns an error at a node.
func at(n *yaml.Node, format string, args ...any) error {
	return placed{n.Line, n.Column, fmt.Errorf(format, args...)}
}

// syntaxAdvice replaces messages of the parser.
var syntaxAdvice = map[string]string{
	"did not find expected ',' or ']'":               "',' or ']' is missing",
	"did not find expected ',' or '}'":               "',' or '}' is missing",
	"did not find expected key":                      "want a key here; check the indentation",
	"did not find expected '-' indicator":            "want '-' here; check the indentation",
	"mapping values are not allowed in this context": "unexpected ':'; check the indentation, or quote the value",
	"found character that cannot start any token":    "a value cannot begin with this character; quote it, and indent with spaces instead of tabs",
	"found unexpected end of stream":                 "the closing quote is missing",
}

// syntaxError returns the error for text that is not YAML, without the stages of the parser.
func syntaxError(err error) error {
	e, ok := errors.AsType[*yaml.LoadError](err)
	if !ok || e.Mark.Line == 0 {
		return err
	}
	text := e.Message
	if advice := syntaxAdvice[text]; advice != "" {
		text = advice
	}
	if begin := e.ContextMark; begin.Line > 0 && begin.Line != e.Mark.Line {
		text += fmt.Sprintf(" (%s from line %d)", strings.TrimPrefix(e.ContextMsg, "while "), begin.Line)
	}
	return placed{e.Mark.Line, e.Mark.Column, errors.New(text)}
}

// kinds are the kinds of values, by the tags of YAML.
var kinds = map[string]string{
	"!!map": "a mapping", "!!seq": "a list", "!!str": "a string", "!!int": "a number", "!!float": "a number", "!!bool": "a boolean",
	"!!null": "empty",
}

// fieldKinds returns the kinds of the fields of a struct, by their JSON names. A field of any kind
// has the kind "".
func fieldKinds(of reflect.Type) map[string]string {
	all := map[string]string{}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		kind := f.Type.Kind()
		if kind == reflect.Pointer {
			kind = f.Type.Elem().Kind()
		}
		switch {
		case f.Type == reflect.TypeFor[json.RawMessage]():
			all[name] = ""
		case kind == reflect.String || f.Type == reflect.TypeFor[[]byte]():
			all[name] = "!!str"
		case kind == reflect.Map:
			all[name] = "!!map"
		case kind == reflect.Bool:
			all[name] = "!!bool"
		default:
			all[name] = "!!int"
		}
	}
	return all
}

// checkFields checks the names and types of the fields of a document.
func checkFields(tree *yaml.Node, fields map[string]string) error {
	root := resolve(tree)
	if root.Kind != yaml.MappingNode {
		return at(root, "want a document with a key, got %s", kindOf(root))
	}
	for i := 0; i+1 < len(root.Content); i += 2 {
		name, value := root.Content[i], resolve(root.Content[i+1])
		want, known := fields[name.Value]
		switch {
		case name.Kind != yaml.ScalarNode || !known:
			return at(name, "unknown field %q%s", name.Value, didYouMean(name.Value, fields))
		case !isKind(value, want):
			return at(value, "%s is %s, want %s%s", name.Value, kindOf(value), kinds[want], quoteIt(value, want))
		case want == "!!map":
			for j := 0; j+1 < len(value.Content); j += 2 {
				if label := resolve(value.Content[j+1]); !isKind(label, "!!str") {
					return at(label, "label %s is %s, want a string%s", value.Content[j].Value, kindOf(label), quoteIt(label, "!!str"))
				}
			}
		}
	}
	return nil
}

// quoteIt returns the end of a message about a scalar that should be a string.
func quoteIt(n *yaml.Node, want string) string {
	if n.Kind == yaml.ScalarNode && want == "!!str" {
		return "; quote it"
	}
	return ""
}

// didYouMean returns the end of a message that proposes the field with the same letters in another
// case or order, or "".
func didYouMean(name string, fields map[string]string) string {
	letters := func(s string) string { return string(slices.Sorted(slices.Values([]rune(strings.ToLower(s))))) }
	for _, field := range slices.Sorted(maps.Keys(fields)) {
		if letters(field) == letters(name) {
			return fmt.Sprintf(" (did you mean %q?)", field)
		}
	}
	return ""
}

func resolve(n *yaml.Node) *yaml.Node {
	switch {
	case n.Kind == yaml.DocumentNode:
		return resolve(n.Content[0])
	case n.Kind == yaml.AliasNode:
		return n.Alias
	}
	return n
}

// isKind reports whether a value is of a kind, or null. Any value is of the kind "".
func isKind(n *yaml.Node, want string) bool {
	if got := n.ShortTag(); want == "" || got == "!!null" || kindOf(n) == kinds[want] {
		return true
	}
	// Tags such as !!binary and !!timestamp are text, too.
	return want == "!!str" && n.Kind == yaml.ScalarNode && kinds[n.ShortTag()] == ""
}

func kindOf(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return kinds["!!map"]
	case n.Kind == yaml.SequenceNode:
		return kinds["!!seq"]
	}
	if kind := kinds[n.ShortTag()]; kind != "" {
		return kind
	}
	return kinds["!!str"]
}
