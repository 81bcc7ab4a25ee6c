package object_test

import (
	"bytes"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

var magic = []byte("\x00fo\x01")

// The hand-written encoding of the envelope equals that of the generated code.
func TestEnvelopeIsTheGeneratedMessage(t *testing.T) {
	c := codec(t, "object")
	content := object.Content{Value: []byte("value"), ContentType: "text/plain", Labels: map[string]string{"b": "2", "a": "1", "example.com/c": ""}}
	stored, refusal := c.Encode(content)
	if refusal != nil {
		t.Fatal(refusal)
	}
	body, ok := bytes.CutPrefix(stored, magic)
	if !ok {
		t.Fatalf("%q does not start with the magic", stored)
	}
	var envelope storagev1.Envelope
	if err := proto.Unmarshal(body, &envelope); err != nil {
		t.Fatal(err)
	}
	got := object.Content{Value: envelope.GetValue(), ContentType: envelope.GetContentType(), Labels: envelope.GetLabels()}
	if diff := cmp.Diff(content, got); diff != "" {
		t.Errorf("(-written +read by the generated code):\n%s", diff)
	}
}

// Equal content is stored as equal bytes.
func TestEnvelopeIsCanonical(t *testing.T) {
	c := codec(t, "object")
	labels := map[string]string{}
	for _, name := range []string{"d", "a", "c", "b", "e", "f"} {
		labels[name] = name
	}
	first, _ := c.Encode(object.Content{Labels: labels})
	for range 50 {
		if again, _ := c.Encode(object.Content{Labels: labels}); !bytes.Equal(first, again) {
			t.Fatalf("equal content is stored as %q and as %q", first, again)
		}
	}
}

// Unknown fields of a later version do not make a value opaque.
func TestEnvelopeOfALaterVersion(t *testing.T) {
	c := codec(t, "object")
	stored, _ := c.Encode(object.Content{Value: []byte("v")})
	stored = protowire.AppendTag(stored, 100, protowire.VarintType)
	stored = protowire.AppendVarint(stored, 7)
	stored = protowire.AppendTag(stored, 101, protowire.BytesType)
	stored = protowire.AppendString(stored, "new")
	if content, err := c.Decode(stored); err != nil || string(content.Value) != "v" {
		t.Errorf("got %+v, %v, want the value v", content, err)
	}
}

// The decoded value shares memory with the stored bytes.
func TestDecodeDoesNotCopyTheValue(t *testing.T) {
	c := codec(t, "object")
	stored, _ := c.Encode(object.Content{Value: make([]byte, 1<<20)})
	if allocs := testing.AllocsPerRun(100, func() {
		if _, err := c.Decode(stored); err != nil {
			t.Fatal(err)
		}
	}); allocs > 0 {
		t.Errorf("got %v allocations, want none", allocs)
	}
}

func FuzzEnvelope(f *testing.F) {
	c := codec(f, "object")
	whole, _ := c.Encode(object.Content{Value: []byte("v"), ContentType: "a/b", Labels: map[string]string{"k": "v"}})
	f.Add(whole)
	f.Add(whole[:len(whole)-1])
	f.Add(magic)
	f.Add([]byte("{}"))
	f.Fuzz(func(t *testing.T, stored []byte) {
		content, err := c.Decode(stored)
		if err != nil {
			return
		}
		// The generated code decodes the same content. It also refuses fields of the wrong
		// type, which the codec skips.
		var envelope storagev1.Envelope
		if err := proto.Unmarshal(stored[len(magic):], &envelope); err == nil && utf8.ValidString(content.ContentType) {
			got := object.Content{Value: envelope.GetValue(), ContentType: envelope.GetContentType(), Labels: envelope.GetLabels()}
			if diff := cmp.Diff(got, content, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("%q (-generated +ours):\n%s", stored, diff)
			}
		}
		// Encoding and decoding again returns the same content. Only labels that another
		// program stored may be invalid.
		again, refusal := c.Encode(content)
		if refusal != nil && refusal.Field == "labels" {
			return
		}
		if refusal != nil {
			t.Fatalf("%q was decoded but cannot be encoded: %v", stored, refusal)
		}
		back, err := c.Decode(again)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(content, back, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%q (-before +after):\n%s", stored, diff)
		}
	})
}
