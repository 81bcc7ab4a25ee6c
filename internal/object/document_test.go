package object_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

// A refusal of broken JSON names the place of the fault, with every codec that requires JSON.
func TestRefusalsOfBrokenJSONNameThePlace(t *testing.T) {
	for value, want := range map[string]string{
		"":                              "it is empty",
		" \n":                           "it is empty",
		`{"enabled": tru`:               "line 1, column 16: unexpected end of JSON input",
		`{"enabled": `:                  "line 1, column 13: unexpected end of JSON input",
		"{\n  \"a\": 1,\n  \"ä\": x\n}": "line 3, column 8: invalid character 'x' looking for beginning of value",
		"{} x":                          "line 1, column 4: invalid character 'x' after top-level value",
		"{\"a\": \"\xff\"}":             "line 1, column 8: not UTF-8",
		"\"\xff\" x":                    "line 1, column 2: not UTF-8",
		"[x, \"\xff\"]":                 "line 1, column 2: invalid character 'x' looking for beginning of value",
		"\ufeff{}":                      "line 1, column 1: invalid character 'ï' looking for beginning of value",
	} {
		for _, name := range []string{"json", "object"} {
			_, refusal := object.Encode(codec(t, name), object.Content{Value: []byte(value), ContentType: object.ContentJSON}, true)
			if refusal == nil || refusal.Field != "value" || !strings.HasSuffix(refusal.Reason, ": "+want) {
				t.Errorf("codec %s, %q: got %v, want a refusal that ends with %q", name, value, refusal, want)
			}
		}
	}
	for _, contentType := range []string{"", object.ContentText, "application/json-seq", "text/json"} {
		if _, refusal := object.Encode(codec(t, "object"), object.Content{Value: []byte("{"), ContentType: contentType}, true); refusal != nil {
			t.Errorf("content type %q: %v", contentType, refusal)
		}
	}
}
