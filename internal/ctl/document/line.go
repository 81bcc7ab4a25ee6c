package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v4"
)

// Place returns where a file has what a JSON pointer into the value names, or the nearest part above it. Without
// [Source.Lines], it is the place of the document. It is empty for a document that is not from a file.
func (d *Document) Place(pointer string) string {
	if d.line == nil {
		return d.place
	}
	return fmt.Sprintf("%s line %d", d.file, d.line(pointer))
}

// findLines makes the document know its lines in a file.
func (d *Document) findLines(file string, t tree) {
	d.file = file
	d.line = func(pointer string) int {
		path := []string{"text"}
		if d.Text == nil {
			path = append([]string{"value"}, steps(pointer)...)
		}
		switch {
		case t.json != nil:
			return t.line + lineInJSON(t.json, path)
		case d.Text != nil:
			return lineInText(t.node, *d.Text, pointer)
		}
		return lineInYAML(t.node, path)
	}
}

// steps returns the parts of a JSON pointer.
func steps(pointer string) []string {
	if pointer == "" {
		return nil
	}
	all := strings.Split(strings.TrimPrefix(pointer, "/"), "/")
	for i, s := range all {
		all[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(s)
	}
	return all
}

// lineInYAML returns the line of the part of a node that the path leads to, or of the nearest part above it.
func lineInYAML(n *yaml.Node, path []string) int {
	line := n.Line
	for _, step := range path {
		if n.Alias != nil {
			n = n.Alias
		}
		below := (*yaml.Node)(nil)
		switch n.Kind {
		case yaml.MappingNode:
			for field := range slices.Chunk(n.Content, 2) {
				if field[0].Value == step {
					line, below = field[0].Line, field[1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
				below = n.Content[i]
				line = below.Line
			}
		}
		if below == nil {
			break
		}
		n = below
	}
	return line
}

// lineInText returns the line of a part of JSON in the text of a document.
func lineInText(n *yaml.Node, text, pointer string) int {
	line := lineInYAML(n, []string{"text"})
	for field := range slices.Chunk(n.Content, 2) {
		if field[0].Value == "text" && field[1].Style&yaml.LiteralStyle != 0 {
			return line + 1 + lineInJSON([]byte(text), steps(pointer)) // the text begins below the key
		}
	}
	return line
}

// lineInJSON returns how many lines are before the part of a text that the path leads to, or the nearest part above it.
func lineInJSON(text []byte, path []string) int {
	in := json.NewDecoder(bytes.NewReader(text))
	found := 0
	for _, step := range path {
		token, err := in.Token()
		if err != nil || token != json.Delim('{') && token != json.Delim('[') || !skipTo(in, token == json.Delim('{'), step) {
			break
		}
		found = int(in.InputOffset())
	}
	rest := text[found:]
	found += len(rest) - len(bytes.TrimLeft(rest, " \t\r\n:,")) // to the beginning of the part
	return bytes.Count(text[:found], []byte("\n"))
}

// skipTo reads the members of an object, or the items of a list, that are before a step, and reports whether there is one with
// that name or index.
func skipTo(in *json.Decoder, object bool, step string) bool {
	for i := 0; in.More(); i++ {
		name := strconv.Itoa(i)
		if object {
			token, err := in.Token()
			if err != nil {
				return false
			}
			name, _ = token.(string)
		}
		if name == step {
			return true
		}
		if in.Decode(new(json.RawMessage)) != nil {
			return false
		}
	}
	return false
}
