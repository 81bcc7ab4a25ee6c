// Package yamlfile reads YAML that people write: strictly, and with the place of each problem.
//
// [Open] parses a file. [File.Decode] stores it in a Go value after it has checked that every field
// is known and every value has the right type. [File.Refuse] and [File.Locate] serve the caller's own
// checks.
package yamlfile

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
)

// File is a YAML file and its problems.
type File struct {
	// Root is the content of the file. It is nil if the file is empty or not valid.
	Root *yaml.Node

	name     string
	problems Problems
}

// Open parses a file with one document. Name is the name of the file in messages.
func Open(name string, data []byte) *File { return open(name, data, true) }

// OpenPlain is like Open for a file that must not have aliases: a list of a few bytes each may stand for gigabytes.
func OpenPlain(name string, data []byte) *File { return open(name, data, false) }

func open(name string, data []byte, aliases bool) *File {
	f := &File{name: name}
	if !utf8.Valid(data) {
		f.Refuse(nil, "not UTF-8 text")
		return f
	}
	var document, another yaml.Node
	in, err := yaml.NewLoader(bytes.NewReader(data))
	if err == nil {
		err = in.Load(&document)
	}
	if err == nil {
		err = in.Load(&another)
	}
	switch {
	case err == nil:
		f.Refuse(&another, "only one document is allowed")
	case !errors.Is(err, io.EOF):
		f.add(err)
	case !aliases && aliasIn(&document) != nil:
		f.Refuse(aliasIn(&document), "aliases are not allowed here; write out what %q stands for", aliasIn(&document).Value)
	case len(document.Content) > 0 && document.Content[0].ShortTag() != nullTag:
		// This finds duplicate keys, and aliases that expand without end.
		if err := document.Load(new(any)); err != nil {
			f.add(err)
		} else {
			f.Root = document.Content[0]
		}
	}
	return f
}

// Encode returns the YAML of a value.
func Encode(v any) ([]byte, error) {
	return yaml.Dump(v, yaml.WithCompactSeqIndent(false), yaml.WithLineWidth(-1), yaml.WithQuotePreference(yaml.QuoteDouble))
}

// Decode stores a node of the file in the value that to points to. Fields that the file does not
// contain stay unchanged. Decode reports whether it found no problems.
func (f *File) Decode(n *yaml.Node, to any) bool {
	var c checker
	c.check(n, reflect.TypeOf(to).Elem(), "")
	err := n.Load(to, yaml.WithKnownFields())
	if len(c.problems) > 0 {
		err = c.problems // explains more
	}
	if err != nil {
		f.add(err)
	}
	return err == nil
}

// Refuse adds a problem at a node, or a problem of the whole file if the node is nil.
func (f *File) Refuse(n *yaml.Node, format string, args ...any) {
	f.add(Problems{At(cmp.Or(n, &yaml.Node{}), format, args...)})
}

func (f *File) add(err error) {
	err = Explain(err)
	problems, ok := errors.AsType[Problems](err)
	if !ok {
		problems = Problems{{Message: err.Error()}}
	}
	for _, p := range problems {
		p.Origin = f.name
		f.problems = append(f.problems, p)
	}
}

// Err returns the problems of the file in their order there, as [Problems], or nil.
func (f *File) Err() error {
	if len(f.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(f.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return f.problems
}

// Locate sets the place of problems that have only a key. If the file does not have the key, it is
// the place of the nearest key above.
func (f *File) Locate(problems Problems) Problems {
	for i, p := range problems {
		if at := f.find(p.Key); p.Origin == "" && at != f.Root {
			problems[i].Origin, problems[i].Line, problems[i].Column = f.name, at.Line, at.Column
		}
	}
	return problems
}

// find returns the node with a key, such as resources[1].codec, or the nearest above it.
func (f *File) find(key string) *yaml.Node {
	at := f.Root
	for step := range strings.FieldsFuncSeq(key, func(r rune) bool { return strings.ContainsRune(".[]", r) }) {
		below := Child(at, step)
		if below == nil {
			break
		}
		at = below
	}
	return at
}

// Child returns the field or list item of a node, or nil.
func Child(n *yaml.Node, name string) *yaml.Node {
	n = resolve(n)
	if i, err := strconv.Atoi(name); err == nil && n.Kind == yaml.SequenceNode && i < len(n.Content) {
		return n.Content[i]
	}
	if n.Kind == yaml.MappingNode {
		for field := range slices.Chunk(n.Content, 2) {
			if field[0].Value == name {
				return field[1]
			}
		}
	}
	return nil
}

// aliasIn returns the first alias inside of a node, or nil.
func aliasIn(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n
	}
	for _, child := range n.Content {
		if found := aliasIn(child); found != nil {
			return found
		}
	}
	return nil
}

// resolve returns the node that an alias stands for, or the node itself.
func resolve(n *yaml.Node) *yaml.Node { return cmp.Or(n.Alias, n) }
