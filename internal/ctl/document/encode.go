package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// JSON returns the document as JSON with a trailing newline.
func (d *Document) JSON(indent bool) ([]byte, error) { return EncodeJSON(d, indent) }

// YAML returns the document as YAML with a trailing newline and without "---". Multi-line
// text becomes a block scalar.
func (d *Document) YAML() ([]byte, error) { return EncodeYAML(d) }

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
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	tree, err := nextNode(tokens)
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

// nextNode converts the next JSON value to a YAML node.
func nextNode(in *json.Decoder) (*yaml.Node, error) {
	token, err := in.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
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
		n := &yaml.Node{}
		n.SetString(token)
		return n, nil
	case json.Number:
		n := &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}
		if _, err := token.Float64(); err != nil {
			n.Tag, n.Style = "!!float", yaml.TaggedStyle // 1e400 alone would be text
		}
		return n, nil
	default:
		n := &yaml.Node{}
		err := n.Encode(token)
		return n, err
	}
}

// maxDepth limits the nesting of documents. A YAML alias may refer to a node that contains
// it, which would recurse without end.
const maxDepth = 1000

// treeJSON writes a YAML node as JSON.
func treeJSON(out *bytes.Buffer, n *yaml.Node, level int) error {
	if level > maxDepth {
		return at(n, "nested too deeply")
	}
	switch n.Kind {
	case yaml.DocumentNode:
		return treeJSON(out, n.Content[0], level+1)
	case yaml.AliasNode:
		return treeJSON(out, n.Alias, level+1)
	case yaml.MappingNode:
		return mappingJSON(out, n, level)
	case yaml.SequenceNode:
		out.WriteByte('[')
		for i, child := range n.Content {
			if i > 0 {
				out.WriteByte(',')
			}
			if err := treeJSON(out, child, level+1); err != nil {
				return err
			}
		}
		out.WriteByte(']')
		return nil
	default:
		return scalarJSON(out, n)
	}
}

func mappingJSON(out *bytes.Buffer, n *yaml.Node, level int) error {
	seen := map[string]bool{}
	out.WriteByte('{')
	for i := 0; i+1 < len(n.Content); i += 2 {
		name := n.Content[i]
		if name.Kind != yaml.ScalarNode {
			return at(name, "a key must be a string")
		}
		if seen[name.Value] {
			return at(name, "duplicate key %q", name.Value)
		}
		seen[name.Value] = true
		if i > 0 {
			out.WriteByte(',')
		}
		if err := textJSON(out, name.Value); err != nil {
			return err
		}
		out.WriteByte(':')
		if err := treeJSON(out, n.Content[i+1], level+1); err != nil {
			return err
		}
	}
	out.WriteByte('}')
	return nil
}

func scalarJSON(out *bytes.Buffer, n *yaml.Node) error {
	switch tag := n.ShortTag(); {
	case tag == "!!null":
		_, err := io.WriteString(out, "null")
		return err
	case (tag == "!!int" || tag == "!!float") && json.Valid([]byte(n.Value)):
		out.WriteString(n.Value) // keeps the spelling
		return nil
	case tag == "!!int" || tag == "!!float" || tag == "!!bool":
		var v any
		if err := n.Decode(&v); err != nil {
			return at(n, "%w", err)
		}
		text, err := json.Marshal(v)
		out.Write(text)
		return err
	default:
		return textJSON(out, n.Value)
	}
}

func textJSON(out *bytes.Buffer, s string) error {
	text, err := EncodeJSON(s, false)
	out.Write(bytes.TrimRight(text, "\n"))
	return err
}
