package object_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"

	"github.com/fanoutd/fanoutd/internal/object"
)

// routeSet is the descriptor set of testdata/route.proto, made by buf.
func routeSet(t testing.TB) []byte {
	t.Helper()
	set, err := os.ReadFile("testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func messageType(t testing.TB, set []byte, name string) *object.MessageType {
	t.Helper()
	descriptors, err := object.ParseDescriptors(set)
	if err != nil {
		t.Fatal(err)
	}
	message, err := descriptors.Message(name)
	if err != nil {
		t.Fatal(err)
	}
	return message
}

// routes returns the codec of acme.v1.Route with fields at these paths.
func routes(t testing.TB, labels string, paths ...string) object.Codec {
	t.Helper()
	s := object.Schema{Labels: labels, Message: messageType(t, routeSet(t), "acme.v1.Route")}
	for _, path := range paths {
		s.Fields = append(s.Fields, object.Field{Name: path, Path: path})
	}
	return schemaCodec(t, "protobuf", s)
}

// stored returns the stored form of a message in JSON.
func stored(t testing.TB, c object.Codec, text string) []byte {
	t.Helper()
	value, refusal := object.Encode(c, object.Content{Value: []byte(text)}, true)
	if refusal != nil {
		t.Fatalf("%s: %v", text, refusal)
	}
	return value
}

func TestFieldsOfMessages(t *testing.T) {
	tests := []struct{ path, message, want string }{
		{"region", `{"region": "eu"}`, "eu"},
		{"region", `{}`, ""},
		{"replicas", `{"replicas": -3}`, "-3"},
		{"offset", `{"offset": "-9007199254740993"}`, "-9007199254740993"},
		{"quota", `{"quota": "18446744073709551615"}`, "18446744073709551615"},
		{"ratio", `{"ratio": 1000000}`, "1000000"},
		{"ratio", `{"ratio": 1e300}`, "1e+300"},
		{"ratio", `{"ratio": "NaN"}`, "NaN"},
		{"ratio", `{"ratio": "Infinity"}`, "Infinity"},
		{"share", `{"share": "-Infinity"}`, "-Infinity"},
		{"share", `{"share": 0.1}`, "0.1"},
		{"enabled", `{"enabled": true}`, "true"},
		{"state", `{"state": "STATE_ACTIVE"}`, "STATE_ACTIVE"},
		{"state", `{"state": 7}`, "7"},

		// Missing fields: zero value without presence, no value with presence.
		{"replicas", `{}`, "0"},
		{"enabled", `{}`, "false"},
		{"state", `{}`, "STATE_UNSPECIFIED"},
		{"ratio", `{}`, "0"},
		{"weight", `{}`, ""},
		{"weight", `{"weight": 0}`, "0"},
		{"team", `{"person": "x"}`, ""},
		{"team", `{"team": ""}`, ""},
		{"person", `{"person": "x"}`, "x"},

		// Inside messages, by proto name and by JSON name.
		{"backend.host_name", `{"backend": {"hostName": "a"}}`, "a"},
		{"backend.hostName", `{"backend": {"hostName": "a"}}`, "a"},
		{"backend.port", `{"backend": {}}`, "0"},
		{"backend.port", `{}`, ""},
		{"backend.fallback.fallback.port", `{"backend": {"fallback": {"fallback": {"port": 1}}}}`, "1"},
		{"backend.fallback.fallback.port", `{"backend": {"fallback": {}}}`, ""},
		{"created.seconds", `{"created": "1970-01-01T00:01:00Z"}`, "60"},

		// Inside maps and lists.
		{"annotations.a-b", `{"annotations": {"a-b": "c"}}`, "c"},
		{"annotations.x", `{"annotations": {"a-b": "c"}}`, ""},
		{"by_port.-80.host_name", `{"byPort": {"-80": {"hostName": "a"}}}`, "a"},
		{"by_port.80.host_name", `{"byPort": {"-80": {"hostName": "a"}}}`, ""},
		{"by_answer.true", `{"byAnswer": {"true": "yes"}}`, "yes"},
		{"by_answer.false", `{"byAnswer": {"true": "yes"}}`, ""},
		{"by_number.5", `{"byNumber": {"5": "6"}}`, "6"},
		{"hosts.1", `{"hosts": ["a", "b"]}`, "b"},
		{"hosts.2", `{"hosts": ["a", "b"]}`, ""},
		{"backends.0.port", `{"backends": [{"port": 5}]}`, "5"},
		{"backends.0.port", `{}`, ""},
	}
	for _, tc := range tests {
		c := routes(t, "", tc.path)
		got, err := c.Decode(stored(t, c, tc.message))
		if err != nil {
			t.Fatal(err)
		}
		if want := []string{tc.want}; !slices.Equal(got.Fields, want) {
			t.Errorf("%s in %s is %q, want %q", tc.path, tc.message, got.Fields, want)
		}
	}
}

func TestLabelsOfMessages(t *testing.T) {
	const message = `{"metadata": {"labels": {"a": "1", "b": ""}}, "annotations": {"c": "d"}}`
	ofMetadata := map[string]string{"a": "1", "b": ""}
	for path, want := range map[string]map[string]string{
		"":                ofMetadata,
		"metadata.labels": ofMetadata,
		"annotations":     {"c": "d"},
	} {
		c := routes(t, path)
		got, err := c.Decode(stored(t, c, message))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Labels); diff != "" {
			t.Errorf("labels at %q (-want +got):\n%s", path, diff)
		}
		if got, err := c.Decode(nil); err != nil || got.Labels != nil {
			t.Errorf("labels at %q of an empty message: %v, %v", path, got.Labels, err)
		}
	}
	// A message type without labels is allowed.
	c := schemaCodec(t, "protobuf", object.Schema{Message: messageType(t, routeSet(t), "acme.v1.Backend")})
	if got, err := c.Decode(stored(t, c, `{"port": 1}`)); err != nil || got.Labels != nil {
		t.Errorf("got %+v, %v, want no labels", got, err)
	}
}

func TestInvalidPathsOfMessages(t *testing.T) {
	message := messageType(t, routeSet(t), "acme.v1.Route")
	for path, says := range map[string]string{
		"regoin":              `acme.v1.Route has no field "regoin", it has metadata, region,`,
		"region.x":            "continues inside a value of type string, which has no fields",
		"backend":             "leads to a value of type acme.v1.Backend, must lead to a string, a number, a boolean or an enum",
		"backend.x":           `acme.v1.Backend has no field "x", it has host_name, port, fallback`,
		"digest":              "leads to a value of type bytes",
		"created":             "leads to a value of type google.protobuf.Timestamp",
		"hosts":               "leads to a list of string",
		"hosts.first":         `"first" is not an index of the list hosts`,
		"hosts.-1":            `"-1" is not an index of the list hosts`,
		"hosts.0.x":           "continues inside a value of type string",
		"annotations":         "leads to a map<string, string>",
		"annotations.a.b":     "continues inside a value of type string",
		"by_port.x.port":      `"x" is not a key of the map by_port`,
		"by_port.99999999999": `is not a key of the map by_port`,
		"by_port.1":           "leads to a value of type acme.v1.Backend",
		"by_answer.yes":       `"yes" is not a key of the map by_answer`,
		"by_number.-1":        `"-1" is not a key of the map by_number`,
		"region..x":           "must be names of",
		"":                    "must be names of",
	} {
		if err := message.CheckField(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("field %s: got %v, want %s", path, err, says)
		}
		s := object.Schema{Message: message, Fields: []object.Field{{Name: "f", Path: path}}}
		if _, err := object.NewCodec("protobuf", s); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("codec with the field %s: got %v, want %s", path, err, says)
		}
	}
	for path, says := range map[string]string{
		"metadata":      "leads to a value of type acme.v1.Metadata, must lead to a map<string, string>",
		"by_answer":     "leads to a map<bool, string>, must lead",
		"by_port":       "leads to a map<int32, acme.v1.Backend>, must lead",
		"hosts":         "leads to a list of string, must lead",
		"annotations.a": "leads to a value of type string, must lead",
		"labels":        `has no field "labels"`,
	} {
		if err := message.CheckLabels(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("labels at %s: got %v, want %s", path, err, says)
		}
		if _, err := object.NewCodec("protobuf", object.Schema{Message: message, Labels: path}); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("codec with labels at %s: got %v, want %s", path, err, says)
		}
	}
	for _, path := range []string{"", "metadata.labels", "annotations"} {
		if err := message.CheckLabels(path); err != nil {
			t.Errorf("labels at %q: %v", path, err)
		}
	}
}

func TestInvalidDescriptors(t *testing.T) {
	withoutImports := func(set *descriptorpb.FileDescriptorSet) {
		set.File = slices.DeleteFunc(set.File, func(f *descriptorpb.FileDescriptorProto) bool { return f.GetName() != "route.proto" })
	}
	unknownType := func(set *descriptorpb.FileDescriptorSet) {
		for _, f := range set.File {
			if f.GetName() == "route.proto" {
				f.MessageType[0].Field[0].TypeName = new(".acme.v1.Nothing")
			}
		}
	}
	changed := func(change func(*descriptorpb.FileDescriptorSet)) []byte {
		var set descriptorpb.FileDescriptorSet
		if err := proto.Unmarshal(routeSet(t), &set); err != nil {
			t.Fatal(err)
		}
		change(&set)
		data, err := proto.Marshal(&set)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	for name, tc := range map[string]struct {
		set  []byte
		says string
	}{
		"empty":         {nil, "not a serialized google.protobuf.FileDescriptorSet"},
		"text":          {[]byte("syntax = \"proto3\";"), "not a serialized google.protobuf.FileDescriptorSet"},
		"truncated":     {routeSet(t)[:1000], "not a serialized google.protobuf.FileDescriptorSet"},
		"no imports":    {changed(withoutImports), "route.proto imports google/protobuf/timestamp.proto, which is missing"},
		"unknown types": {changed(unknownType), "acme.v1.Nothing"},
	} {
		if _, err := object.ParseDescriptors(tc.set); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: got %v, want %s", name, err, tc.says)
		}
	}
	descriptors, err := object.ParseDescriptors(routeSet(t))
	if err != nil {
		t.Fatal(err)
	}
	const known = "must be one of acme.v1.Backend, acme.v1.Metadata, acme.v1.Route, google.protobuf.Timestamp"
	for name, says := range map[string]string{
		"acme.v1.Rout":                   `unknown message "acme.v1.Rout", ` + known,
		"Route":                          `unknown message "Route", ` + known,
		"":                               `unknown message "", ` + known,
		".acme.v1.Route":                 "unknown message",
		"acme.v1.State":                  "acme.v1.State is not a message, " + known,
		"acme.v1.Route.region":           "is not a message",
		"acme.v1.Route.AnnotationsEntry": "is not a message",
	} {
		if _, err := descriptors.Message(name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %s", name, err, says)
		}
	}
}

func TestStoringMessages(t *testing.T) {
	c := routes(t, "")
	message := stored(t, c, `{"region": "eu"}`)
	later := append(slices.Clone(message), 0xfa, 0x7f, 1, 'x') // with a field of a later version of the type
	tests := map[string]struct {
		in   object.Content
		text bool
		want []byte
	}{
		"a message":                    {object.Content{Value: message}, false, message},
		"a message with its type":      {object.Content{Value: message, ContentType: "application/protobuf"}, false, message},
		"a message of a later version": {object.Content{Value: later}, false, later},
		"an empty message":             {object.Content{}, false, nil},
		"JSON":                         {object.Content{Value: []byte(` {"region": "eu"}`)}, true, message},
		"JSON with its type":           {object.Content{Value: []byte(`{"region": "eu"}`), ContentType: "application/json; charset=utf-8"}, true, message},
		"JSON as bytes":                {object.Content{Value: []byte(`{"region": "eu"}`), ContentType: object.ContentJSON}, false, message},
		"JSON with proto names":        {object.Content{Value: []byte(`{"backend": {"host_name": ""}, "region": "eu"}`)}, true, append(slices.Clone(message), 0x3a, 0)},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, refusal := object.Encode(c, tc.in, tc.text)
			if refusal != nil {
				t.Fatal(refusal)
			}
			if !bytes.Equal(got, tc.want) {
				t.Errorf("stored as %q, want %q", got, tc.want)
			}
			content, err := c.Decode(got)
			if err != nil {
				t.Fatal(err)
			}
			if content.ContentType != object.ContentProtobuf || !bytes.Equal(content.Value, got) {
				t.Errorf("decoded as %+v, want the stored bytes as protobuf", content)
			}
		})
	}
	// Equal messages are stored as equal bytes, whatever the order of their entries.
	const many = `{"annotations": {"a": "", "b": "", "c": "", "d": "", "e": ""}}`
	first := stored(t, c, many)
	for range 20 {
		if !bytes.Equal(first, stored(t, c, many)) {
			t.Fatal("equal messages are stored as different bytes")
		}
	}
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	c := routes(t, "")
	tests := map[string]struct {
		in          object.Content
		text        bool
		field, says string
	}{
		"invalid bytes":          {object.Content{Value: []byte{0x12, 5, 'a'}}, false, "value", "is not a message acme.v1.Route: "},
		"invalid string":         {object.Content{Value: []byte("\x12\x01\xff")}, false, "value", "invalid UTF-8"},
		"invalid JSON":           {object.Content{Value: []byte("{")}, true, "value", "is not the JSON form of a message acme.v1.Route: "},
		"empty JSON":             {object.Content{}, true, "value", "is not the JSON form"},
		"an unknown field":       {object.Content{Value: []byte(`{"regoin": 1}`)}, true, "value", `unknown field "regoin"`},
		"another kind of value":  {object.Content{Value: []byte(`{"region": 1}`)}, true, "value", "invalid value for string field region: 1"},
		"a type":                 {object.Content{ContentType: "text/plain"}, false, "content_type", "must be application/protobuf or application/json in this resource"},
		"an invalid label":       {object.Content{Value: []byte(`{"metadata": {"labels": {"a b": "c"}}}`)}, true, "value", `has the label "a b", which is invalid`},
		"labels":                 {object.Content{Labels: map[string]string{"a": "b"}}, false, "labels", "cannot be stored"},
		"labels beside the JSON": {object.Content{Value: []byte("{}"), Labels: map[string]string{"a": "b"}}, true, "labels", "cannot be stored"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, refusal := object.Encode(c, tc.in, tc.text)
			if refusal == nil || refusal.Field != tc.field || !strings.Contains(refusal.Reason, tc.says) {
				t.Errorf("got %v, want a refusal of %s: %s", refusal, tc.field, tc.says)
			}
		})
	}
}

// Messages of proto2 may contain invalid UTF-8, and may have required fields.
func TestMessagesOfProto2(t *testing.T) {
	set := selfDescription(t)
	c := schemaCodec(t, "protobuf", object.Schema{
		Message: messageType(t, set, "google.protobuf.FileDescriptorProto"),
		Fields:  []object.Field{{Name: "name", Path: "name"}, {Name: "optimize", Path: "options.optimize_for"}},
	})
	got, err := c.Decode([]byte("\x0a\x03a\xffb\x42\x00"))
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"a\uFFFDb", ""}; !slices.Equal(got.Fields, want) {
		t.Errorf("fields %q, want %q", got.Fields, want)
	}
	part := schemaCodec(t, "protobuf", object.Schema{Message: messageType(t, set, "google.protobuf.UninterpretedOption.NamePart")})
	if got, err := part.Decode(nil); err == nil {
		t.Errorf("a message without its required fields was decoded as %+v", got)
	}
	if _, err := part.Decode(stored(t, part, `{"namePart": "a", "isExtension": false}`)); err != nil {
		t.Error(err)
	}
}

// selfDescription returns the descriptor set of descriptor.proto.
func selfDescription(t testing.TB) []byte {
	t.Helper()
	set, err := proto.Marshal(&descriptorpb.FileDescriptorSet{
		File: []*descriptorpb.FileDescriptorProto{protodesc.ToFileDescriptorProto(descriptorpb.File_google_protobuf_descriptor_proto)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// The fields that a schema finds equal those that the generated code finds. Decode fails
// exactly if the generated code fails.
func FuzzMessageFields(f *testing.F) {
	paths := []string{
		"name", "dependency.1", "messageType.0.name", "message_type.0.field.1.label", "message_type.0.field.0.number",
		"options.java_multiple_files", "options.optimize_for", "public_dependency.0",
	}
	var schema object.Schema
	for _, path := range paths {
		schema.Fields = append(schema.Fields, object.Field{Name: path, Path: path})
	}
	schema.Message = messageType(f, selfDescription(f), "google.protobuf.FileDescriptorProto")
	c := schemaCodec(f, "protobuf", schema)

	var routeFiles descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(routeSet(f), &routeFiles); err != nil {
		f.Fatal(err)
	}
	for _, file := range routeFiles.GetFile() {
		seed, err := proto.Marshal(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
	}
	for _, text := range []string{
		`{"name": "é", "dependency": ["a", "b"], "publicDependency": [7]}`,
		`{"messageType": [{"name": "M", "field": [{"number": -1}, {"label": "LABEL_REPEATED"}]}]}`,
		`{"options": {"javaMultipleFiles": true, "optimizeFor": "CODE_SIZE"}}`,
	} {
		var m descriptorpb.FileDescriptorProto
		if err := protojson.Unmarshal([]byte(text), &m); err != nil {
			f.Fatal(err)
		}
		seed, err := proto.Marshal(&m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(seed)
		f.Add(seed[:len(seed)-1])
		f.Add(append(seed, seed...)) // a parser merges the two messages
	}
	f.Add([]byte("\x0a\x01\xff"))
	f.Fuzz(func(t *testing.T, value []byte) {
		content, err := c.Decode(value)
		var m descriptorpb.FileDescriptorProto
		if known := proto.Unmarshal(value, &m); (known == nil) != (err == nil) {
			t.Fatalf("%q: got %v, the generated code returns %v", value, err, known)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(fileFields(&m), content.Fields); diff != "" {
			t.Errorf("%q (-generated code +schema):\n%s", value, diff)
		}
		wantValidText(t, content)
		back, refusal := object.Encode(c, object.Content{Value: content.Value, ContentType: content.ContentType}, false)
		if refusal != nil || !bytes.Equal(back, value) {
			t.Errorf("%q was decoded and then encoded as %q, %v", value, back, refusal)
		}
	})
}

// An accepted JSON form is stored as a message that can be decoded. Encoding the stored
// message again does not change it.
func FuzzMessageJSON(f *testing.F) {
	c := routes(f, "", "region", "ratio", "hosts.0", "by_port.80.host_name", "backend.fallback.port")
	for _, s := range []string{
		`{}`, ``, `{"region": "é"}`, `{"region": "\ud800"}`, `{"ratio": "NaN", "share": 1e40}`, `{"quota": "1e1", "offset": -0}`,
		`{"hosts": ["a", null]}`, `{"byPort": {"80": {"hostName": "a"}, "080": {}}}`, `{"backend": {"fallback": {"port": 7}}}`,
		`{"created": "2020-01-01T00:00:00.5Z"}`, `{"digest": "_-8="}`, `{"team": "a", "person": "b"}`, `{"metadata": {"labels": {"a": "b", "c": ""}}}`,
		`{"[acme.v1.x]": 1}`, `{"state": -7}`, `{"region": null}`, `[]`, `{"region": "a", "region": "b"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		value, refusal := object.Encode(c, object.Content{Value: text}, true)
		if refusal != nil {
			if refusal.Field != "value" || refusal.Reason == "" {
				t.Errorf("%q is refused with %v, want a reason for the value", text, refusal)
			}
			return
		}
		content, err := c.Decode(value)
		if err != nil {
			t.Fatalf("%q was accepted and stored as %q, which does not decode: %v", text, value, err)
		}
		wantValidText(t, content)
		again, refusal := object.Encode(c, object.Content{Value: value}, false)
		if refusal != nil || !bytes.Equal(again, value) {
			t.Errorf("%q is stored as %q, which is encoded as %q, %v", text, value, again, refusal)
		}
	})
}
