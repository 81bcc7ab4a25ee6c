package document

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v4"
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
		if format == Auto {
			var err error
			if format, err = detect(r); err != nil {
				yield(record[T]{}, fmt.Errorf("cannot read %s: %w", name, err))
				return
			}
		}
		fields := fieldKinds(reflect.TypeFor[T]())
		next := yamlStream(r, fields)
		if format == JSON {
			next = jsonStream(r)
		}
		for {
			text, place, err := next()
			if errors.Is(err, io.EOF) {
				return
			}
			var content T
			if err == nil {
				content, err = fromJSON[T](text, fields)
			}
			if err == nil {
				err = check(&content)
			}
			at := strings.TrimSpace(name + " " + where(err, place))
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

// isArray reports whether the next character after spaces is an opening bracket.
func isArray(r *bufio.Reader) bool {
	for {
		c, err := r.ReadByte()
		if err != nil {
			return false
		}
		if !unicode.IsSpace(rune(c)) {
			_ = r.UnreadByte() // cannot fail after a read
			return c == '['
		}
	}
}

// detect determines the format from the first character after spaces.
func detect(r *bufio.Reader) (Format, error) {
	for {
		c, _, err := r.ReadRune()
		switch {
		case errors.Is(err, io.EOF):
			return JSON, nil // an empty stream is valid in both formats
		case err != nil:
			return Auto, err
		case unicode.IsSpace(c) || c == '\ufeff':
			continue
		}
		if err := r.UnreadRune(); err != nil {
			return Auto, err
		}
		if c == '{' || c == '[' {
			return JSON, nil
		}
		return YAML, nil
	}
}

// next returns the next document as JSON and its location, or io.EOF at the end.
type next func() (text []byte, where string, err error)

func jsonStream(r *bufio.Reader) next {
	array := isArray(r)
	in := json.NewDecoder(r)
	n := 0
	return func() ([]byte, string, error) {
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
		err := in.Decode(&text)
		return text, where, err
	}
}

func fromJSON[T any](text []byte, fields map[string]string) (T, error) {
	var content T
	if !utf8.Valid(text) {
		return content, errors.New("not valid UTF-8") // the decoder would replace invalid bytes
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	if err := in.Decode(&content); err != nil {
		return content, decodeError(err)
	}
	if err := checkDuplicates(text); err != nil {
		return content, err
	}
	return content, checkSpelling(text, fields)
}

// decodeError removes the names of Go and its packages from an error of encoding/json.
func decodeError(err error) error {
	if wrong, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && wrong.Field != "" {
		return fmt.Errorf("%s cannot be a JSON %s", wrong.Field, wrong.Value)
	} else if ok {
		return fmt.Errorf("want a document with a key, got a JSON %s", wrong.Value)
	}
	if errors.As(err, new(base64.CorruptInputError)) {
		return errors.New("data is not base64")
	}
	if message, ours := strings.CutPrefix(err.Error(), "json: "); ours {
		return errors.New(message)
	}
	return err
}

func yamlStream(r io.Reader, fields map[string]string) next {
	in, err := yaml.NewLoader(r)
	var queue []*yaml.Node // the rest of a list of documents
	return func() ([]byte, string, error) {
		if err != nil {
			return nil, "", err
		}
		for len(queue) == 0 {
			var tree yaml.Node
			if err := in.Load(&tree); err != nil {
				return nil, "", syntaxError(err)
			}
			if isEmpty(&tree) {
				continue // for example after the last "---"
			}
			first := &tree
			if tree.Kind == yaml.DocumentNode {
				first = tree.Content[0] // not the "---" before it
			}
			queue = []*yaml.Node{first}
			if first.Kind == yaml.SequenceNode {
				queue = first.Content
			}
		}
		tree := queue[0]
		queue = queue[1:]
		text, err := fromTree(tree, fields)
		return text, fmt.Sprintf("line %d", tree.Line), err
	}
}

func isEmpty(tree *yaml.Node) bool {
	return tree.IsZero() || tree.Kind == yaml.DocumentNode && (len(tree.Content) == 0 || tree.Content[0].ShortTag() == "!!null")
}

func fromTree(tree *yaml.Node, fields map[string]string) ([]byte, error) {
	var text bytes.Buffer
	if err := treeJSON(&text, tree, 0); err != nil {
		return nil, err
	}
	return text.Bytes(), checkFields(tree, fields)
}

// checkSpelling returns an error if a field name differs from the right one only in case,
// which encoding/json accepts.
func checkSpelling(text []byte, fields map[string]string) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(text, &given); err != nil {
		return err
	}
	for name := range given {
		if _, known := fields[name]; !known {
			return fmt.Errorf("unknown field %q%s", name, didYouMean(name, fields))
		}
	}
	return nil
}

// checkDuplicates returns an error if a JSON object at any depth has a duplicate key, of
// which encoding/json ignores one.
func checkDuplicates(text []byte) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber() // accept numbers that do not fit into a float64
	return checkNext(in)
}

// checkNext checks the next value for duplicate keys.
func checkNext(in *json.Decoder) error {
	token, err := in.Token()
	opening, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	seen := map[json.Token]bool{}
	for in.More() {
		if opening == '{' {
			key, err := in.Token()
			if err != nil {
				return err
			}
			if seen[key] {
				return fmt.Errorf("duplicate key %q", key)
			}
			seen[key] = true
		}
		if err := checkNext(in); err != nil {
			return err
		}
	}
	_, err = in.Token() // the closing delimiter
	return err
}
