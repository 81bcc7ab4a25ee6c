package object_test

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/anypb"

	"github.com/fanoutd/fanoutd/internal/object"
)

// A message that was stored in its canonical form survives a change to JSON and back.
func TestJSONFormsAreExact(t *testing.T) {
	c := routes(t, "")
	form := object.JSONForm(c)
	for _, text := range []string{
		`{}`,
		`{"metadata":{"labels":{"a":"1","b":""}},"region":"ü \u003c\"\\","replicas":-3,"weight":0,"enabled":true,"state":"STATE_ACTIVE"}`,
		`{"backend":{"hostName":"a","fallback":{}},"annotations":{"x":"y","z":""},"byPort":{"-1":{},"80":{"port":4294967295}},"byAnswer":{"false":"","true":"1"}}`,
		`{"byNumber":{"0":"18446744073709551615"},"hosts":["","b"],"backends":[{},{"port":1}],"person":"","digest":"AP8=","created":"2026-01-02T03:04:05.000000001Z"}`,
		`{"ratio":0.1,"share":0.1,"quota":"18446744073709551615","offset":"-9007199254740993"}`,
		`{"ratio":"NaN","share":"-Infinity"}`,
		`{"ratio":-0,"state":7}`,
	} {
		value := stored(t, c, text)
		var first []byte
		for range 20 { // the library adds random spaces
			o, ok := form.InJSON(object.Decoded{Value: value, ContentType: object.ContentProtobuf})
			if !ok {
				t.Fatalf("%s has no JSON form", text)
			}
			if o.ContentType != object.ContentJSON || first != nil && !bytes.Equal(o.Value, first) {
				t.Fatalf("got %s and %s of type %s", o.Value, first, o.ContentType)
			}
			first = o.Value
		}
		if again := stored(t, c, string(first)); !bytes.Equal(again, value) {
			t.Errorf("%s: stored %q, and %q after a change to %s and back", text, value, again, first)
		}
	}
}

// A value stays as it is if its JSON form would lose a part of it.
func TestValuesWithoutAJSONForm(t *testing.T) {
	for _, name := range []string{"object", "json", "raw"} {
		if object.JSONForm(codec(t, name)) != nil {
			t.Errorf("the codec %s has a JSON form", name)
		}
	}
	form := object.JSONForm(routes(t, ""))
	for what, o := range map[string]object.Decoded{
		"opaque":                          {Value: []byte("\xff"), Opaque: true},
		"undecryptable":                   {Opaque: true, Undecryptable: true},
		"an unknown field":                {Value: []byte("\x12\x02eu\xf8\x07\x01")},
		"an unknown field inside":         {Value: []byte("\x3a\x03\xf8\x07\x01")},
		"an unknown field of a map":       {Value: []byte("\x4a\x07\x08\x01\x12\x03\xf8\x07\x01")},
		"an unknown field of a list":      {Value: []byte("\x6a\x03\xf8\x07\x01")},
		"a time that JSON cannot have":    {Value: []byte("\x8a\x01\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f")},
		"a value that is large as a text": {Value: bytes.Repeat([]byte("\x62\x00"), 1<<20)},
	} {
		if got, ok := form.InJSON(o); ok {
			t.Errorf("%s: got %.100s", what, got.Value)
		}
	}
}

// An Any has a special JSON form, in which its own unknown fields are lost as well.
func TestValuesOfAnyWithoutAJSONForm(t *testing.T) {
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(anypb.File_google_protobuf_any_proto)}})
	if err != nil {
		t.Fatal(err)
	}
	form := object.JSONForm(schemaCodec(t, "protobuf", object.Schema{Message: messageType(t, set, "google.protobuf.Any")}))
	const unknown = "\xf8\x07\x01"
	within := func(value string) string {
		text, err := proto.Marshal(&anypb.Any{TypeUrl: "type.googleapis.com/google.protobuf.Any", Value: []byte(value)})
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	for _, value := range []string{within(""), within(within(""))} {
		if _, ok := form.InJSON(object.Decoded{Value: []byte(value)}); !ok {
			t.Errorf("%q has no JSON form", value)
		}
	}
	for what, value := range map[string]string{
		"an unknown field":                  within("") + unknown,
		"an unknown field inside":           within(within("") + unknown),
		"an unknown field at the end":       within(unknown),
		"a type that the server lacks":      "\x0a\x03x/y",
		"a value that is no such message":   within("\xff"),
		"an unknown field and nothing else": unknown,
	} {
		if got, ok := form.InJSON(object.Decoded{Value: []byte(value)}); ok {
			t.Errorf("%s: got %s", what, got.Value)
		}
	}
}
