package object_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fanoutd/fanoutd/internal/object"
)

// wantValidText fails if labels or fields are not valid UTF-8. Clients could not decode a
// message with them.
func wantValidText(t *testing.T, c object.Content) {
	t.Helper()
	for name, value := range c.Labels {
		if !utf8.ValidString(name) || !utf8.ValidString(value) {
			t.Errorf("the label %q=%q is not valid UTF-8", name, value)
		}
	}
	for _, value := range c.Fields {
		if !utf8.ValidString(value) {
			t.Errorf("the field value %q is not valid UTF-8", value)
		}
	}
}

// fileFields returns the values of the fields in FuzzMessageFields, found by generated
// code.
func fileFields(m *descriptorpb.FileDescriptorProto) []string {
	values := make([]string, 8)
	text := func(s *string) string {
		if s == nil {
			return ""
		}
		return strings.ToValidUTF8(*s, "\uFFFD")
	}
	values[0] = text(m.Name)
	if len(m.Dependency) > 1 {
		values[1] = text(&m.Dependency[1])
	}
	if len(m.MessageType) > 0 {
		first := m.MessageType[0]
		values[2] = text(first.Name)
		if len(first.Field) > 1 && first.Field[1].Label != nil {
			values[3] = first.Field[1].Label.String()
		}
		if len(first.Field) > 0 && first.Field[0].Number != nil {
			values[4] = strconv.Itoa(int(*first.Field[0].Number))
		}
	}
	if o := m.Options; o != nil {
		if o.JavaMultipleFiles != nil {
			values[5] = strconv.FormatBool(*o.JavaMultipleFiles)
		}
		if o.OptimizeFor != nil {
			values[6] = o.OptimizeFor.String()
		}
	}
	if len(m.PublicDependency) > 0 {
		values[7] = strconv.Itoa(int(m.PublicDependency[0]))
	}
	return values
}

// The fields that a schema finds in a document equal those that encoding/json finds.
func FuzzDocumentFields(f *testing.F) {
	schema := object.Schema{Labels: "meta.labels", Fields: []object.Field{
		{Name: "a", Path: "a"}, {Name: "nested", Path: "a.b"}, {Name: "item", Path: "list.1"}, {Name: "deep", Path: "list.0.$x-y.z"},
	}}
	c := schemaCodec(f, "json", schema)
	for _, s := range []string{
		`{"a": {"b": "c"}, "list": [{"$x-y": {"z": 1.50}}, true], "meta": {"labels": {"k": "v", "n": 1, "o": {}}}}`,
		`{"a": "\ud800\u00e9\n", "meta": {"labels": {"\udfff": "\ud83d\ude00"}}}`,
		`{"a": 1, "a": 2}`, `[]`, `7`, `"a"`, `null`, `{`, ``, "\"\xff\"", `{"\u0061": "x"}`, `{"list": {"1": "x"}}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		content, err := c.Decode(document)
		if isDocument := json.Valid(document) && utf8.Valid(document); isDocument != (err == nil) {
			t.Fatalf("%q: %v", document, err)
		}
		if err != nil {
			return
		}
		if len(content.Fields) != len(schema.Fields) || !bytes.Equal(content.Value, document) {
			t.Fatalf("%q is decoded as %+v", document, content)
		}
		wantValidText(t, content)

		// For a repeated name one library takes the first member, the other the last.
		// Therefore compare on a document without repetitions.
		var tree any
		decoder := json.NewDecoder(bytes.NewReader(document))
		decoder.UseNumber()
		if err := decoder.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		plain, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Decode(plain)
		if err != nil {
			t.Fatal(err)
		}
		want := object.Content{Value: plain, ContentType: object.ContentJSON}
		for _, field := range schema.Fields {
			text, _ := scalarText(at(tree, field.Path))
			want.Fields = append(want.Fields, text)
		}
		if labels, ok := at(tree, schema.Labels).(map[string]any); ok {
			want.Labels = map[string]string{}
			for name, value := range labels {
				if text, ok := scalarText(value); ok {
					want.Labels[name] = text
				}
			}
		}
		if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-encoding/json +schema):\n%s", plain, diff)
		}
	})
}

// at returns the value at a path in a decoded document.
func at(tree any, path string) any {
	for name := range strings.SplitSeq(path, ".") {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[name]
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i >= len(node) {
				return nil
			}
			tree = node[i]
		default:
			return nil
		}
	}
	return tree
}

func scalarText(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	case bool:
		return strconv.FormatBool(v), true
	}
	return "", false
}

// A path that CheckPath accepts finds exactly its value in documents, and never fails in
// messages.
func FuzzPaths(f *testing.F) {
	message := messageType(f, routeSet(f), "acme.v1.Route")
	for _, s := range []string{"a", "a.b", "a.#", "a|b", "@this", "hosts.0", "by_port.-1.port", "by_number.18446744073709551616", "backend.fallback.fallback.port", "hosts.2147483648"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, path string) {
		valid := object.CheckPath(path) == nil
		if message.CheckField(path) == nil {
			if !valid {
				t.Errorf("CheckField accepts %q, CheckPath does not", path)
			}
			c := schemaCodec(t, "protobuf", object.Schema{Message: message, Fields: []object.Field{{Name: "f", Path: path}}})
			if got, err := c.Decode(nil); err != nil || len(got.Fields) != 1 {
				t.Errorf("%q in an empty message: %+v, %v", path, got, err)
			}
		}
		if !valid {
			return
		}
		// A document with a single value, at this path.
		names := strings.Split(path, ".")
		var tree any = "found"
		for _, name := range slices.Backward(names) {
			tree = map[string]any{name: tree}
		}
		document, err := json.Marshal(tree)
		if err != nil {
			t.Fatal(err)
		}
		c := schemaCodec(t, "json", object.Schema{Fields: []object.Field{{Name: "f", Path: path}, {Name: "other", Path: path + "x"}, {Name: "deeper", Path: path + ".x"}}})
		got, err := c.Decode(document)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"found", "", ""}, got.Fields); diff != "" {
			t.Errorf("%q in %s (-want +got):\n%s", path, document, diff)
		}
	})
}
