package object_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/object"
)

func codec(t testing.TB, name string) object.Codec {
	t.Helper()
	c, err := object.CodecByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if c.Name() != name {
		t.Fatalf("codec %s has the name %s", name, c.Name())
	}
	return c
}

func TestCodecsHaveNames(t *testing.T) {
	if got, want := object.CodecNames(), []string{"json", "object", "protobuf", "raw"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if _, err := object.CodecByName("xml"); err == nil {
		t.Error("the unknown codec xml was accepted")
	}
	if _, err := object.CodecByName("protobuf"); err == nil {
		t.Error("the codec protobuf was accepted without a message type")
	}
}

// StoresLabels says which codecs accept labels beside the value. Each accepts {} as a value.
func TestStoresLabels(t *testing.T) {
	for _, name := range object.CodecNames() {
		c := schemaCodec(t, name, object.Schema{Message: messageType(t, routeSet(t), "acme.v1.Route")})
		content := object.Content{Value: []byte("{}"), Labels: map[string]string{"team": "web"}}
		_, refusal := object.Encode(c, content, true)
		if refusal != nil && refusal.Field != "labels" {
			t.Fatal(refusal)
		}
		if got, want := object.StoresLabels(name), refusal == nil; got != want {
			t.Errorf("codec %s: got %v, want %v", name, got, want)
		}
	}
	if object.StoresLabels("xml") {
		t.Error("an unknown codec stores labels")
	}
}

// Decode returns the content that a writer sent.
func TestContentSurvivesStorage(t *testing.T) {
	tests := map[string]struct {
		codec string
		in    object.Content
		text  bool
		want  object.Content
	}{
		"an object with everything": {
			codec: "object",
			in:    object.Content{Value: []byte{0xff}, ContentType: "image/png", Labels: map[string]string{"b": "2", "a": ""}},
			want:  object.Content{Value: []byte{0xff}, ContentType: "image/png", Labels: map[string]string{"b": "2", "a": ""}},
		},
		"an object sent as text": {
			codec: "object", in: object.Content{Value: []byte("x")}, text: true,
			want: object.Content{Value: []byte("x"), ContentType: object.ContentText},
		},
		"an object sent as bytes": {
			codec: "object", in: object.Content{Value: []byte("x")},
			want: object.Content{Value: []byte("x"), ContentType: object.ContentBinary},
		},
		"an empty object": {
			codec: "object", text: true, want: object.Content{ContentType: object.ContentText},
		},
		"a JSON document": {
			codec: "json", in: object.Content{Value: []byte(` {"a": 1} `)}, text: true,
			want: object.Content{Value: []byte(` {"a": 1} `), ContentType: object.ContentJSON},
		},
		"a JSON document with its type": {
			codec: "json", in: object.Content{Value: []byte("1"), ContentType: object.ContentJSON},
			want: object.Content{Value: []byte("1"), ContentType: object.ContentJSON},
		},
		"raw bytes": {
			codec: "raw", in: object.Content{Value: []byte{0, 0xff}},
			want: object.Content{Value: []byte{0, 0xff}, ContentType: object.ContentBinary},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			c := codec(t, tc.codec)
			stored, refusal := object.Encode(c, tc.in, tc.text)
			if refusal != nil {
				t.Fatal(refusal)
			}
			got, err := c.Decode(stored)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCodecsRefuseInvalidContent(t *testing.T) {
	labels := map[string]string{"a": "b"}
	tests := map[string]struct {
		codec string
		in    object.Content
		field string
	}{
		"invalid JSON":                   {"json", object.Content{Value: []byte("{")}, "value"},
		"empty JSON":                     {"json", object.Content{}, "value"},
		"JSON with invalid UTF-8":        {"json", object.Content{Value: []byte("\"\xff\"")}, "value"},
		"JSON with another type":         {"json", object.Content{Value: []byte("1"), ContentType: "text/plain"}, "content_type"},
		"JSON with labels":               {"json", object.Content{Value: []byte("1"), Labels: labels}, "labels"},
		"broken JSON in an object":       {"object", object.Content{Value: []byte(`{"a": tru`), ContentType: object.ContentJSON}, "value"},
		"no JSON in an object":           {"object", object.Content{ContentType: object.ContentJSON}, "value"},
		"JSON of a dialect, broken":      {"object", object.Content{Value: []byte("{"), ContentType: "application/geo+json; v=1"}, "value"},
		"JSON in an object, not UTF-8":   {"object", object.Content{Value: []byte("\"\xff\""), ContentType: "Application/JSON"}, "value"},
		"raw bytes with a type":          {"raw", object.Content{ContentType: "text/plain"}, "content_type"},
		"raw bytes with labels":          {"raw", object.Content{Labels: labels}, "labels"},
		"type with invalid UTF-8":        {"object", object.Content{ContentType: "\xff"}, "content_type"},
		"label name with invalid UTF-8":  {"object", object.Content{Labels: map[string]string{"\xff": ""}}, "labels"},
		"empty label name":               {"object", object.Content{Labels: map[string]string{"": "a"}}, "labels"},
		"label name with a space":        {"object", object.Content{Labels: map[string]string{"a b": ""}}, "labels"},
		"label name that is too long":    {"object", object.Content{Labels: map[string]string{strings.Repeat("a", 64): ""}}, "labels"},
		"label value with a comma":       {"object", object.Content{Labels: map[string]string{"a": "b,c"}}, "labels"},
		"label value that is too long":   {"object", object.Content{Labels: map[string]string{"a": strings.Repeat("b", 64)}}, "labels"},
		"label of a document":            {"json", object.Content{Value: []byte(`{"metadata": {"labels": {"a": "b,c"}}}`)}, "value"},
		"label value with invalid UTF-8": {"object", object.Content{Labels: map[string]string{"a": "\xff"}}, "labels"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, refusal := object.Encode(codec(t, tc.codec), tc.in, false)
			if refusal == nil || refusal.Field != tc.field {
				t.Errorf("got %v, want a refusal of %s", refusal, tc.field)
			}
		})
	}
}

func TestForeignValuesDoNotDecode(t *testing.T) {
	for codecName, values := range map[string][]string{
		"json":   {"", "{", "\"\xff\"", "\x00fo\x01"},
		"object": {"", "{}", "\x00fo", "\x00fo\x02", "\x00fo\x01\xff", "\x00fo\x01\x1a\x05ab"},
	} {
		for _, value := range values {
			if content, err := codec(t, codecName).Decode([]byte(value)); err == nil {
				t.Errorf("codec %s decodes %q as %+v, want an error", codecName, value, content)
			}
		}
	}
	if c := object.OpaqueContent([]byte("text")); c.ContentType != object.ContentText {
		t.Errorf("opaque text has type %s, want %s", c.ContentType, object.ContentText)
	}
	if c := object.OpaqueContent([]byte("\xff")); c.ContentType != object.ContentBinary {
		t.Errorf("opaque bytes have type %s, want %s", c.ContentType, object.ContentBinary)
	}
}

func TestIsText(t *testing.T) {
	tests := []struct {
		contentType, value string
		want               bool
	}{
		{"text/plain; charset=utf-8", "a", true},
		{"TEXT/HTML", "a", true},
		{"application/json", "{}", true},
		{"application/yaml", "a: b", true},
		{"application/xml", "<a/>", true},
		{"application/toml", "a = 1", true},
		{"application/merge-patch+json", "{}", true},
		{"image/svg+xml", "<svg/>", true},
		{"application/json", "\xff", false},
		{"text/plain", "\xff", false},
		{"application/octet-stream", "a", false},
		{"application/jsonx", "a", false},
		{"", "a", false},
	}
	for _, tc := range tests {
		if got := object.IsText(tc.contentType, []byte(tc.value)); got != tc.want {
			t.Errorf("%s %q: got %v, want %v", tc.contentType, tc.value, got, tc.want)
		}
	}
}
