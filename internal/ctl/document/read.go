package document

import (
	"bufio"
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

// Format is the format of a stream.
type Format string

// The formats. Auto detects JSON by a leading brace or bracket. JSON is a sequence of
// documents, or one array of them.
const (
	Auto Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
)

// Located is a document with its location for error messages.
type Located struct {
	Document
	Where string
}

// Stream reads the documents of a stream and stops at the first error. Error messages use
// the name.
func Stream(name string, in io.Reader, format Format) iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		for r, err := range records(name, in, format, (*Document).check) {
			if !yield(Located{r.content, r.where}, err) {
				return
			}
		}
	}
}

// record is an item of a stream, with its location.
type record[T any] struct {
	content T
	where   string
}

// records reads a stream of structs with JSON tags, and stops at the first error.
func records[T any](name string, in io.Reader, format Format, check func(*T) error) iter.Seq2[record[T], error] {
	return func(yield func(record[T], error) bool) {
		r := bufio.NewReaderSize(in, 16<<10)
		first, offset, err := peek(r)
		if err != nil {
			yield(record[T]{}, fmt.Errorf("cannot read %s: %w", name, err))
			return
		}
		read := yamlStream(r)
		if format == JSON || format == Auto && strings.IndexByte("\x00{[", first) >= 0 {
			_, _ = r.Discard(offset) // cannot fail after a peek
			read = jsonStream(r, first == '[')
		}
		for {
			tree, place, err := read()
			if errors.Is(err, io.EOF) {
				return
			}
			var content T
			if err == nil {
				content, err = decode[T](tree)
			}
			if err == nil {
				err = check(&content)
			}
			if problem, ok := errors.AsType[yamlfile.Problem](err); ok && problem.Line > 0 {
				place = fmt.Sprintf("line %d, column %d", problem.Line, problem.Column)
				problem.Line = 0
				err = problem
			}
			at := strings.TrimSpace(name + " " + place)
			if err != nil {
				yield(record[T]{}, fmt.Errorf("cannot read %s: %w", at, err))
				return
			}
			if !yield(record[T]{content, at}, nil) {
				return
			}
		}
	}
}

// cutShort turns io.EOF into io.ErrUnexpectedEOF where the stream must not end.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// peek returns the first character after spaces and a byte order mark, and its offset. The character
// is 0 if there is none.
func peek(r *bufio.Reader) (first byte, offset int, err error) {
	for ; ; offset++ {
		text, err := r.Peek(offset + 1)
		switch {
		case errors.Is(err, io.EOF):
			return 0, offset, nil
		case err != nil:
			return 0, offset, err
		case strings.IndexByte(" \t\r\n\ufeff", text[offset]) < 0:
			return text[offset], offset, nil
		}
	}
}

// next returns the next document and its location, or io.EOF at the end.
type next func() (tree *yaml.Node, where string, err error)

func jsonStream(r io.Reader, array bool) next {
	in := json.NewDecoder(r)
	n := 0
	return func() (*yaml.Node, string, error) {
		n++
		where := fmt.Sprintf("(document %d)", n)
		if array && n == 1 {
			if _, err := in.Token(); err != nil {
				return nil, where, err
			}
		}
		if array && !in.More() {
			if _, err := in.Token(); err != nil {
				return nil, where, cutShort(err)
			}
			array = false
		}
		var text json.RawMessage
		if err := in.Decode(&text); err != nil {
			return nil, where, err
		}
		if !utf8.Valid(text) {
			return nil, where, errors.New("not valid UTF-8") // the decoder would replace invalid bytes
		}
		tree, err := parseJSON(text)
		return tree, where, err
	}
}

func yamlStream(r io.Reader) next {
	in, err := yaml.NewLoader(r)
	var queue []*yaml.Node // the rest of a list of documents
	return func() (*yaml.Node, string, error) {
		if err != nil {
			return nil, "", err
		}
		for len(queue) == 0 {
			var tree yaml.Node
			if err = in.Load(&tree); err != nil {
				return nil, "", yamlfile.Explain(err)
			}
			switch content := tree.Content[0]; {
			case content.ShortTag() == "!!null": // for example after the last "---"
			case content.Kind == yaml.SequenceNode:
				queue = content.Content
			default:
				queue = tree.Content
			}
		}
		tree := queue[0]
		queue = queue[1:]
		return tree, fmt.Sprintf("line %d", tree.Line), nil
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
