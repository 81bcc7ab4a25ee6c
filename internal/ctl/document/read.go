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

// Format is how a stream is written.
type Format string

// The formats. Auto finds out: what begins with a brace or a bracket is JSON. JSON is
// documents one after the other, or one array of them.
const (
	Auto Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
)

// Located is a document and where it was read, for messages about it.
type Located struct {
	Document
	Where string
}

// Stream reads documents one after the other. Name is what messages call the
// stream. Reading ends with the first error.
func Stream(name string, in io.Reader, format Format) iter.Seq2[Located, error] {
	return func(yield func(Located, error) bool) {
		r := bufio.NewReaderSize(in, 16<<10)
		if format == Auto {
			var err error
			if format, err = recognise(r); err != nil {
				yield(Located{}, fmt.Errorf("read %s: %w", name, err))
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
				yield(Located{}, fmt.Errorf("read %s: %w", at, err))
				return
			}
			if !yield(Located{d, at}, nil) {
				return
			}
		}
	}
}

// cutShort tells an end that is none from one that is.
func cutShort(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// isArray reports whether the next character that is no space is a bracket.
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

// recognise looks at the first character that is no space.
func recognise(r *bufio.Reader) (Format, error) {
	for {
		c, _, err := r.ReadRune()
		switch {
		case errors.Is(err, io.EOF):
			return JSON, nil // nothing at all, which both take
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

// next reads a document and says where it was. It returns io.EOF after the last.
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
		return Document{}, errors.New("it is not UTF-8") // what is not would be replaced
	}
	in := json.NewDecoder(bytes.NewReader(text))
	in.DisallowUnknownFields()
	var d Document
	if err := in.Decode(&d); err != nil {
		return Document{}, err
	}
	for _, check := range []func([]byte) error{ambiguous, misspelt} {
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
				// The library's messages may take several lines.
				if first, _, more := strings.Cut(err.Error(), "\n"); more {
					err = errors.New(first)
				}
				return Document{}, "", err
			}
			if empty(&tree) {
				continue // such as after the last "---"
			}
			first := &tree
			if tree.Kind == yaml.DocumentNode {
				first = tree.Content[0] // and not the "---" before it
			}
			where := fmt.Sprintf("line %d", first.Line)
			d, err := fromTree(&tree)
			return d, where, err
		}
	}
}

func empty(tree *yaml.Node) bool {
	return tree.IsZero() || tree.Kind == yaml.DocumentNode && (len(tree.Content) == 0 || tree.Content[0].ShortTag() == "!!null")
}

func fromTree(tree *yaml.Node) (Document, error) {
	var text bytes.Buffer
	if err := treeJSON(&text, tree, 0); err != nil {
		return Document{}, err
	}
	return fromJSON(text.Bytes())
}

// memberNames are those of a document.
var memberNames = func() []string {
	var all []string
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Document]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all = append(all, name)
	}
	return all
}()

// misspelt returns an error if a member of a document has a name in other letters,
// which encoding/json takes for the right one.
func misspelt(text []byte) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	for _, name := range memberNames {
		delete(members, name)
	}
	for _, name := range memberNames {
		for other := range members {
			if strings.EqualFold(name, other) {
				return fmt.Errorf("unknown field %q, which may stand for %q", other, name)
			}
		}
	}
	return nil
}

// ambiguous returns an error if a JSON value, at any depth, has a member twice, of
// which encoding/json ignores one.
func ambiguous(text []byte) error {
	in := json.NewDecoder(bytes.NewReader(text))
	in.UseNumber() // not each is one of Go's
	return repeated(in)
}

func repeated(in *json.Decoder) error {
	token, err := in.Token()
	begin, nested := token.(json.Delim)
	if err != nil || !nested {
		return err
	}
	seen := map[json.Token]bool{}
	for in.More() {
		if begin == '{' {
			name, err := in.Token()
			if err != nil {
				return err
			}
			if seen[name] {
				return fmt.Errorf("%q is there twice", name)
			}
			seen[name] = true
		}
		if err := repeated(in); err != nil {
			return err
		}
	}
	_, err = in.Token() // the closing one
	return err
}
