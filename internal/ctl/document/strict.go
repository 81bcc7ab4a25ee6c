package document

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
)

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
