package document

import (
	"bufio"
	"bytes"
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
		r := bufio.NewReaderSize(in, 16<<10)
		if format == Auto {
			var err error
			if format, err = detect(r); err != nil {
				yield(Located{}, fmt.Errorf("cannot read %s: %w", name, err))
				return
			}
		}
		next := yamlStream(r)
		if format == JSON {
			next = jsonStream(r)
		}
		for {
			d, where, err := next()
			if errors.Is(err, io.EOF) {
				return
			}
			at := strings.TrimSpace(name + " " + where)
			if err != nil {
				yield(Located{}, fmt.Errorf("cannot read %s: %w", at, err))
				return
			}
			if !yield(Located{d, at}, nil) {
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

// next returns the next document and its location, or io.EOF at the end.
type next func() (d Document, where string, err error)

func jsonStream(r *bufio.Reader) next {
	array := isArray(r)
	in := json.NewDecoder(r)
	n := 0
	return func() (Document, string, error) {
		n++
		where := fmt.Sprintf("(document %d)", n)
		if array && n == 1 {
			if _, err := in.Token(); err != nil {
				return Document{}, where, err
			}
		}
		if array && !in.More() {
			if _, err := in.Token(); err != nil {
				return Document{}, where, cutShort(err)
			}
			array = false
		}
		var text json.RawMessage
		if err := in.Decode(&text); err != nil {
			return Document{}, where, err
		}
		d, err := fromJSON(text)
		return d, where, err
	}
}

func fromJSON(text []byte) (Document, error) {
	if !utf8.Valid(text) {
		return Document{}, errors.New("not valid UTF-8") // the decoder would replace invalid bytes
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	var d Document
	if err := in.Decode(&d); err != nil {
		return Document{}, err
	}
	for _, check := range []func([]byte) error{checkDuplicates, checkSpelling} {
		if err := check(text); err != nil {
			return Document{}, err
		}
	}
	return d, d.check()
}

func yamlStream(r io.Reader) next {
	in, err := yaml.NewLoader(r)
	return func() (Document, string, error) {
		if err != nil {
			return Document{}, "", err
		}
		for {
			var tree yaml.Node
			if err := in.Load(&tree); err != nil {
				// Keep only the first line of the message.
				if first, _, more := strings.Cut(err.Error(), "\n"); more {
					err = errors.New(first)
				}
				return Document{}, "", err
			}
			if isEmpty(&tree) {
				continue // for example after the last "---"
			}
			first := &tree
			if tree.Kind == yaml.DocumentNode {
				first = tree.Content[0] // not the "---" before it
			}
			where := fmt.Sprintf("line %d", first.Line)
			d, err := fromTree(&tree)
			return d, where, err
		}
	}
}

func isEmpty(tree *yaml.Node) bool {
	return tree.IsZero() || tree.Kind == yaml.DocumentNode && (len(tree.Content) == 0 || tree.Content[0].ShortTag() == "!!null")
}

func fromTree(tree *yaml.Node) (Document, error) {
	var text bytes.Buffer
	if err := treeJSON(&text, tree, 0); err != nil {
		return Document{}, err
	}
	return fromJSON(text.Bytes())
}

// fieldNames are the JSON names of the fields of a [Document].
var fieldNames = func() []string {
	var all []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Document]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}()

// checkSpelling returns an error if a field name differs from the right one only in case,
// which encoding/json accepts.
func checkSpelling(text []byte) error {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return err
	}
	for _, name := range fieldNames {
		delete(fields, name)
	}
	for _, name := range fieldNames {
		for other := range fields {
			if strings.EqualFold(name, other) {
				return fmt.Errorf("unknown field %q (did you mean %q?)", other, name)
			}
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
