package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// EncodeJSON encodes a value as JSON with a trailing newline, without escaping for HTML.
func EncodeJSON(v any, indent bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode JSON: %w", err)
	}
	return b.Bytes(), nil
}

// EncodeYAML encodes a value as YAML with the same fields in the same order as [EncodeJSON],
// and with the same spelling of numbers.
func EncodeYAML(v any) ([]byte, error) {
	text, err := EncodeJSON(v, false)
	if err != nil {
		return nil, err
	}
	tree, err := parseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("convert JSON to YAML: %w", err)
	}
	// A negative width disables line breaks.
	out, err := yaml.Dump(tree, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("encode YAML: %w", err)
	}
	return out, nil
}

// parseJSON converts JSON to a YAML node.
func parseJSON(text []byte) (*yaml.Node, error) {
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber() // accept numbers that do not fit into a float64
	return nextNode(tokens)
}

// nextNode converts the next JSON value to a YAML node.
func nextNode(in *json.Decoder) (*yaml.Node, error) {
	token, err := in.Token()
	if err != nil {
		return nil, err
	}
	n := &yaml.Node{Kind: yaml.ScalarNode, Value: fmt.Sprint(token)}
	switch token := token.(type) {
	case json.Delim:
		n = &yaml.Node{Kind: yaml.MappingNode}
		if token == '[' {
			n.Kind = yaml.SequenceNode
		}
		for in.More() {
			// Keys are tokens like their values.
			child, err := nextNode(in)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle // block style has no empty collections
		}
		_, err := in.Token() // the closing delimiter
		return n, err
	case string:
		n.SetString(token)
	case json.Number:
		n.Tag = "!!int"
		if _, err := token.Int64(); err != nil {
			n.Tag = "!!float"
		}
		if _, err := token.Float64(); err != nil {
			n.Style = yaml.TaggedStyle // 1e400 alone would be text
		}
	case bool:
		n.Tag = "!!bool"
	case nil:
		n.Tag, n.Value = "!!null", "null"
	}
	return n, nil
}

// toJSON converts a YAML node to JSON.
func toJSON(n *yaml.Node) ([]byte, error) {
	var w jsonWriter
	w.strings = json.NewEncoder(&w.out)
	w.strings.SetEscapeHTML(false)
	err := w.node(n, 0)
	return w.out.Bytes(), err
}

// A YAML alias may refer to a node that contains it, or double the document each time. These limits
// are arbitrary, and above what a server stores.
const (
	maxDepth    = 1000
	maxExpanded = 8 << 20
)

// jsonWriter writes YAML nodes as JSON.
type jsonWriter struct {
	out     bytes.Buffer
	strings *json.Encoder // to out
}

func (w *jsonWriter) node(n *yaml.Node, level int) error {
	if level > maxDepth {
		return yamlfile.At(n, "nested too deeply")
	}
	switch n.Kind {
	case yaml.AliasNode:
		if w.out.Len() > maxExpanded {
			return yamlfile.At(n, "aliases make the document too large")
		}
		return w.node(n.Alias, level+1)
	case yaml.MappingNode:
		return w.mapping(n, level)
	case yaml.SequenceNode:
		w.out.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				w.out.WriteByte(',')
			}
			if err := w.node(item, level+1); err != nil {
				return err
			}
		}
		w.out.WriteByte(']')
		return nil
	default:
		return w.scalar(n)
	}
}

func (w *jsonWriter) mapping(n *yaml.Node, level int) error {
	seen := map[string]bool{}
	w.out.WriteByte('{')
	for field := range slices.Chunk(n.Content, 2) {
		name := field[0]
		if name.Kind != yaml.ScalarNode {
			return yamlfile.At(name, "a key must be a string")
		}
		if seen[name.Value] {
			return yamlfile.At(name, "duplicate key %q", name.Value)
		}
		if len(seen) > 0 {
			w.out.WriteByte(',')
		}
		seen[name.Value] = true
		if err := w.string(name.Value); err != nil {
			return err
		}
		w.out.WriteByte(':')
		if err := w.node(field[1], level+1); err != nil {
			return err
		}
	}
	w.out.WriteByte('}')
	return nil
}

func (w *jsonWriter) scalar(n *yaml.Node) error {
	switch n.ShortTag() {
	case "!!null", "!!bool", "!!int", "!!float":
	default:
		return w.string(n.Value)
	}
	text := []byte(n.Value)
	if !json.Valid(text) {
		var v any
		err := n.Load(&v)
		if err == nil {
			text, err = json.Marshal(v)
		}
		if err != nil {
			return yamlfile.At(n, "%v", err)
		}
	}
	w.out.Write(text) // keeps the spelling of numbers
	return nil
}

func (w *jsonWriter) string(s string) error {
	err := w.strings.Encode(s)
	w.out.Truncate(w.out.Len() - 1) // the newline
	return err
}
