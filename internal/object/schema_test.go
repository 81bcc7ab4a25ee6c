package object_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/object"
)

func schemaCodec(t testing.TB, name string, s object.Schema) object.Codec {
	t.Helper()
	c, err := object.NewCodec(name, s)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestFieldsAndLabelsOfDocuments(t *testing.T) {
	schema := object.Schema{Fields: []object.Field{
		{Name: "region", Path: "spec.region"},
		{Name: "replicas", Path: "spec.replicas"},
		{Name: "on", Path: "on"},
		{Name: "first", Path: "list.0"},
	}}
	tests := map[string]struct {
		document string
		fields   []string
		labels   map[string]string
	}{
		"everything": {
			`{"spec": {"region": "eu", "replicas": 3}, "on": true, "list": ["x", "y"], "metadata": {"labels": {"a": "1", "b": ""}}}`,
			[]string{"eu", "3", "true", "x"},
			map[string]string{"a": "1", "b": ""},
		},
		"nothing":                  {`{}`, []string{"", "", "", ""}, nil},
		"not even an object":       {`7`, []string{"", "", "", ""}, nil},
		"values of other types":    {`{"spec": {"region": null, "replicas": {}}, "on": [], "list": []}`, []string{"", "", "", ""}, nil},
		"escapes":                  {`{"spec": {"region": "\u00e9\n"}}`, []string{"\u00e9\n", "", "", ""}, nil},
		"half a surrogate pair":    {`{"spec": {"region": "\ud800"}}`, []string{"\uFFFD", "", "", ""}, nil},
		"labels of other types":    {`{"metadata": {"labels": {"n": 1.50, "t": false, "o": {}, "z": null}}}`, []string{"", "", "", ""}, map[string]string{"n": "1.50", "t": "false"}},
		"labels that are a list":   {`{"metadata": {"labels": ["a"]}}`, []string{"", "", "", ""}, nil},
		"labels that are a string": {`{"metadata": {"labels": "a"}}`, []string{"", "", "", ""}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := schemaCodec(t, "json", schema).Decode([]byte(tc.document))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.fields, got.Fields); diff != "" {
				t.Errorf("fields (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.labels, got.Labels); diff != "" {
				t.Errorf("labels (-want +got):\n%s", diff)
			}
		})
	}
	elsewhere := schemaCodec(t, "json", object.Schema{Labels: "tags"})
	got, err := elsewhere.Decode([]byte(`{"tags": {"a": "b"}, "metadata": {"labels": {"c": "d"}}}`))
	if err != nil || len(got.Labels) != 1 || got.Labels["a"] != "b" {
		t.Errorf("labels at another path: got %v, %v, want a=b", got.Labels, err)
	}
}

// A document must not repeat a member that selectors depend on: other JSON libraries might
// see another value.
func TestDocumentsWithRepeatedMembers(t *testing.T) {
	schema := object.Schema{Labels: "meta.tags", Fields: []object.Field{{Name: "region", Path: "spec.region"}, {Name: "first", Path: "list.0.a"}}}
	for document, refused := range map[string]struct{ json, object string }{
		`{"spec": {"region": 1, "region": 2}}`:                {"region", "region"},
		`{"spec": {"region": 1, "\u0072egion": 1}}`:           {"region", "region"},
		`{"spec": 7, "spec": {"region": 2}}`:                  {"spec", "spec"},
		`{"list": [{"a": 1, "a": 1}]}`:                        {"a", "a"},
		`{"meta": {"tags": {"x": 1, "y": 2, "x": 1}}}`:        {"x", ""},
		`{"meta": {"tags": {}, "tags": {"y": 2}}}`:            {"tags", ""},
		`{"meta": 1, "meta": {}}`:                             {"meta", ""},
		`{"a": 1, "a": 2, "spec": {"x": 1, "x": 2}}`:          {},
		`{"list": [{"a": 1}, {"a": 1, "a": 2}], "spec": {}}`:  {},
		`{"meta": {"tags": ["x", "x"]}, "region": 1}`:         {},
		`{"meta": {"tags": {"x": {"b": 1, "b": 2}, "y": 1}}}`: {},
		`[]`: {}, `7`: {}, `"spec"`: {}, `null`: {},
	} {
		for name, member := range map[string]string{"json": refused.json, "object": refused.object} {
			_, err := schemaCodec(t, name, schema).Encode(object.Content{Value: []byte(document), ContentType: object.ContentJSON})
			switch {
			case member == "" && err != nil:
				t.Errorf("codec %s: %s: got %v, want no error", name, document, err)
			case member != "" && (err == nil || err.Field != "value" || !strings.Contains(err.Reason, strconv.Quote(member))):
				t.Errorf("codec %s: %s: got %v, want an error that names %q", name, document, err, member)
			}
		}
	}
	if _, err := schemaCodec(t, "object", schema).Encode(object.Content{Value: []byte(`{"spec":1,"spec":2}`), ContentType: object.ContentText}); err != nil {
		t.Errorf("value that is not a JSON document: %v", err)
	}
}

// The codec "object" takes labels from the envelope, and fields from JSON values.
func TestFieldsOfObjects(t *testing.T) {
	c := schemaCodec(t, "object", object.Schema{Fields: []object.Field{{Name: "region", Path: "region"}}})
	for contentType, want := range map[string][]string{
		"application/json":                {"eu"},
		"application/json; charset=utf-8": {"eu"},
		"application/merge-patch+json":    {"eu"},
		"text/plain":                      nil,
	} {
		stored, refusal := c.Encode(object.Content{Value: []byte(`{"region": "eu", "metadata": {"labels": {"a": "b"}}}`), ContentType: contentType})
		if refusal != nil {
			t.Fatal(refusal)
		}
		got, err := c.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Fields); diff != "" || got.Labels != nil {
			t.Errorf("%s: labels %v, fields (-want +got):\n%s", contentType, got.Labels, diff)
		}
	}
	// An object with an invalid JSON value, which writes refuse, still decodes.
	stored := []byte("\x00fo\x01\x0a\x10application/json\x1a\x0b" + `{"region": `)
	if got, err := c.Decode(stored); err != nil || got.Fields != nil {
		t.Errorf("got %+v, %v, want an object without fields", got, err)
	}
}

func TestIndexedFields(t *testing.T) {
	s := object.Schema{Fields: []object.Field{{Name: "a", Path: "a"}, {Name: "b", Path: "b", Indexed: true}, {Name: "c", Path: "c", Indexed: true}}}
	if diff := cmp.Diff([]string{"a", "b", "c"}, s.Names()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]int{1, 2}, s.Indexed()); diff != "" {
		t.Error(diff)
	}
}

func TestCheckPath(t *testing.T) {
	for _, path := range []string{"a", "a.b", "spec.0.name", "$ref", "with-dash", "with_underscore"} {
		if err := object.CheckPath(path); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	for _, path := range []string{"", ".", "a.", ".a", "a..b", "a.#", "a.*", "a?", "@this", "a|b", "a.#(b=1)", "a b", "a\\.b", "ä"} {
		if err := object.CheckPath(path); err == nil {
			t.Errorf("%q is accepted as a path", path)
		}
	}
}
