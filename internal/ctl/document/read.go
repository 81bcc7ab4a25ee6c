package document

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// Format is the format of a text.
type Format string

// The formats. Auto detects JSON by a leading brace or bracket. JSON is a sequence of
// documents, or one array of them.
const (
	Auto Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
)

// Read reads the documents of a text. If one of them is wrong, it returns those before it and an error.
// Error messages use the name.
func Read(name string, text []byte, format Format) ([]Document, error) {
	return read(name, text, format, false)
}

// read is [Read]. With lines, the documents know the lines of their parts, which keeps the text in memory.
func read(name string, text []byte, format Format, lines bool) ([]Document, error) {
	return records(name, text, format, func(d *Document, t tree) error {
		if lines {
			d.findLines(name, t)
		}
		return d.readAt(name + " " + t.place)
	})
}

// records reads structs with JSON tags, up to the first error. Accept gets each of them.
func records[T any](name string, text []byte, format Format, accept func(record *T, t tree) error) ([]T, error) {
	trees := yamlTrees(text)
	begin := bytes.TrimLeft(text, " \t\r\n\ufeff")
	if format == JSON || format == Auto && (len(begin) == 0 || begin[0] == '{' || begin[0] == '[') {
		trees = jsonTrees(begin, 1+bytes.Count(text[:len(text)-len(begin)], []byte("\n")))
	}
	var all []T
	for t, err := range trees {
		var record T
		if err == nil {
			record, err = decode[T](t.node)
		}
		if err == nil {
			err = accept(&record, t)
		}
		if problem, ok := errors.AsType[yamlfile.Problem](err); ok && problem.Line > 0 {
			t.place = fmt.Sprintf("line %d, column %d", problem.Line, problem.Column)
			problem.Line = 0
			err = problem
		}
		if err != nil {
			err = fmt.Errorf("cannot read %s: %w", strings.TrimSpace(name+" "+t.place), err)
			if t.isPlain() {
				err = plainValue{err}
			}
			return all, err
		}
		all = append(all, record)
	}
	return all, nil
}

// tree is a document of a text, and where it is.
type tree struct {
	node  *yaml.Node
	place string
	json  []byte // nil: YAML, whose nodes have lines
	line  int    // of json
}

// isPlain reports whether a document has no key.
func (t tree) isPlain() bool {
	return t.node != nil && (t.node.Kind != yaml.MappingNode || yamlfile.Child(t.node, "key") == nil)
}

// ErrPlainValue is that of a text which may be a value, but is no document, because it has no key.
var ErrPlainValue = errors.New("document without a key")

type plainValue struct{ error }

func (e plainValue) Unwrap() []error { return []error{e.error, ErrPlainValue} }

// jsonTrees reads JSON that begins at a line.
func jsonTrees(text []byte, line int) iter.Seq2[tree, error] {
	return func(yield func(tree, error) bool) {
		in := json.NewDecoder(bytes.NewReader(text))
		array := bytes.HasPrefix(text, []byte("["))
		if array {
			_, _ = in.Token() // the bracket
		}
		for n := 1; ; n++ {
			t := tree{place: fmt.Sprintf("(document %d)", n)}
			before := in.InputOffset()
			var err error
			if array && !in.More() {
				array = false
				if _, err = in.Token(); errors.Is(err, io.EOF) {
					err = io.ErrUnexpectedEOF
				}
			}
			var value json.RawMessage
			if err == nil {
				err = in.Decode(&value)
			}
			switch {
			case errors.Is(err, io.EOF):
				return
			case err == nil && !utf8.Valid(value):
				err = errors.New("not valid UTF-8") // the decoder would replace invalid bytes
			case err == nil:
				t.node, err = parseJSON(value)
				t.json = value
				begin := in.InputOffset() - int64(len(value))
				t.line = line + bytes.Count(text[before:begin], []byte("\n"))
				line = t.line + bytes.Count(value, []byte("\n"))
			}
			if !yield(t, err) {
				return
			}
		}
	}
}

func yamlTrees(text []byte) iter.Seq2[tree, error] {
	return func(yield func(tree, error) bool) {
		in, err := yaml.NewLoader(bytes.NewReader(text))
		for err == nil {
			var document yaml.Node
			if err = in.Load(&document); err != nil {
				break
			}
			documents := document.Content
			switch content := documents[0]; {
			case content.ShortTag() == "!!null": // for example after the last "---"
				continue
			case content.Kind == yaml.SequenceNode:
				documents = content.Content
			}
			for _, node := range documents {
				if !yield(tree{node: node, place: fmt.Sprintf("line %d", node.Line)}, nil) {
					return
				}
			}
		}
		if !errors.Is(err, io.EOF) {
			yield(tree{}, yamlfile.Explain(err))
		}
	}
}

// decode returns the struct that a document describes.
func decode[T any](tree *yaml.Node) (T, error) {
	var content T
	if tree.Kind != yaml.MappingNode {
		return content, yamlfile.At(tree, "want a document with a key")
	}
	if err := yamlfile.CheckJSON(tree, reflect.TypeFor[T]()); err != nil {
		return content, err
	}
	text, err := toJSON(tree)
	if err != nil {
		return content, err
	}
	err = json.Unmarshal(text, &content)
	if errors.As(err, new(base64.CorruptInputError)) {
		err = errors.New("data is not base64")
	}
	return content, err
}
