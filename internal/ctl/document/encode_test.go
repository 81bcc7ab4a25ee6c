package document

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/fanoutd/fanoutd/client"
)

func TestExactDocumentsRestoreTheValue(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := &client.Object{
			Key:         rapid.StringN(1, 20, 60).Draw(t, "key"),
			ContentType: rapid.SampledFrom([]string{"", "application/json", "text/plain"}).Draw(t, "type"),
		}
		o.Value = rapid.OneOf(
			rapid.SliceOf(rapid.Byte()),
			rapid.Map(rapid.String(), func(s string) []byte { return []byte(s) }),
			rapid.Map(rapid.StringMatching(`[ \n\r\ta:#'"|>{}\[\],&*!%@-]*`), func(s string) []byte { return []byte(s) }),
			rapid.Map(rapid.SampledFrom([]string{"1", "1.0", "1e3", "null", `"~"`, "true", `{"b":1,"a":"012"}`, `{"a":12345678901234567890}`, `[1e400,-1E+400,1e-400,0.10]`, `{"a":` + strings.Repeat("9", 400) + `}`, `[]`, `{"a":"x\ny"}`, `{ "a" : 1 }`, `"<"`, `{"a":1.10}`, `{"a":"\u2028"}`, `{"a":1,"a":2}`, `[{"a":{"b":1,"b":1}}]`}), func(s string) []byte { return []byte(s) }),
		).Draw(t, "value")
		d := Exact(o)
		y, err := EncodeYAML(d)
		if err != nil {
			t.Fatal(err)
		}
		back, err := first(y)
		if err != nil {
			t.Fatalf("%v\n%s", err, y)
		}
		if diff := cmp.Diff(string(o.Value), string(back.Bytes())); diff != "" || back.Key != o.Key {
			t.Fatalf("%s\n%s", diff, y)
		}
	})
}

func first(text []byte) (Document, error) {
	all, err := Read("s", text, YAML)
	if err == nil && len(all) == 0 {
		err = errors.New("no document")
	}
	if err != nil {
		return Document{}, err
	}
	return all[0], nil
}
