package follow

import (
	"strings"
	"testing"
	"text/template"
)

// The entry that a map does not have is empty text in labels, and nothing in an object of JSON.
func TestGetOfAMissingEntry(t *testing.T) {
	data := map[string]any{"L": map[string]string{"app": "web"}, "J": map[string]any{"app": "web"}}
	for text, want := range map[string]string{
		`[{{get "app" .L}}]`:                  "[web]",
		`[{{get "zone" .L}}]`:                 "[]",
		`{{eq (get "zone" .L) ""}}`:           "true",
		`[{{get "zone" .L | upper}}]`:         "[]",
		`[{{printf "%s" (get "zone" .L)}}]`:   "[]",
		`[{{get "app" .J}}]`:                  "[web]",
		`{{if not (get "zone" .J)}}no{{end}}`: "no",
		`{{toJSON (get "zone" .J)}}`:          "null",
	} {
		var got strings.Builder
		if err := template.Must(template.New("").Funcs(functions).Parse(text)).Execute(&got, data); err != nil || got.String() != want {
			t.Errorf("%s: got %q, %v, want %q", text, got.String(), err, want)
		}
	}
}
