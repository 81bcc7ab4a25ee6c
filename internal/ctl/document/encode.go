package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"go.yaml.in/yaml/v4"
)

// JSON returns the document as JSON, on one line or indented, with a line break at
// the end.
func (d *Document) JSON(indent bool) ([]byte, error) { return EncodeJSON(d, indent) }

// YAML returns the document as YAML, with a line break at the end and without "---".
// Texts of several lines are blocks.
func (d *Document) YAML() ([]byte, error) { return EncodeYAML(d) }

// EncodeJSON is how everything is written as JSON: without escaping what only HTML
// is afraid of, on one line or indented, with a line break at the end.
func EncodeJSON(v any, indent bool) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if indent {
		e.SetIndent("", "  ")
	}
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("write as JSON: %w", err)
	}
	return b.Bytes(), nil
}

// EncodeYAML writes as YAML what [EncodeJSON] writes as JSON: the same members in
// the same order, and numbers as they are spelled.
func EncodeYAML(v any) ([]byte, error) {
	text, err := EncodeJSON(v, false)
	if err != nil {
		return nil, err
	}
	tokens := json.NewDecoder(bytes.NewReader(text))
	tokens.UseNumber()
	tree, err := nextNode(tokens)
	if err != nil {
		return nil, fmt.Errorf("show JSON as YAML: %w", err)
	}
	// A width below zero: lines are not broken.
	out, err := yaml.Dump(tree, yaml.WithIndent(2), yaml.WithLineWidth(-1))
	if err != nil {
		return nil, fmt.Errorf("write as YAML: %w", err)
	}
	return out, nil
}

// nextNode makes a tree of the next JSON value.
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
			// The names of members are tokens like their values.
			child, err := nextNode(in)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle // {} and [] cannot be written otherwise
		}
		_, err := in.Token() // the closing one
		return n, err
	case string:
		n := &yaml.Node{}
		n.SetString(token)
		return n, nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil
	default:
		n := &yaml.Node{}
		err := n.Encode(token)
		return n, err
	}
}

// depth is how deep documents may be nested. An alias may name what it is a part
// of, so without a limit there is no end.
const depth = 1000

// treeJSON writes what YAML has as JSON.
func treeJSON(out *bytes.Buffer, n *yaml.Node, level int) error {
	if level > depth {
		return errors.New("nested too deep")
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
			return fmt.Errorf("line %d: the name of a member must be a text", name.Line)
		}
		if seen[name.Value] {
			return fmt.Errorf("line %d: %q is there twice", name.Line, name.Value)
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
		out.WriteString(n.Value) // as it is spelled
		return nil
	case tag == "!!int" || tag == "!!float" || tag == "!!bool":
		var v any
		if err := n.Decode(&v); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
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
