package document

import (
	"errors"
	"strings"
	"testing"
)

func TestPlaceFindsTheLineOfAPointer(t *testing.T) {
	for name, c := range map[string]struct{ text, pointer, want string }{
		"YAML":                 {"# x\nkey: a\nvalue:\n  b: 1\n  c:\n    d: 2\n", "/c/d", "6"},
		"a mapping":            {"key: a\nvalue:\n  c:\n    d: 2\n", "/c", "3"},
		"a list":               {"key: a\nvalue:\n  - 1\n  - x: 1\n    y: 2\n", "/1/y", "5"},
		"missing":              {"key: a\nvalue:\n  c:\n    d: 2\n", "/c/e/f", "3"},
		"not a number":         {"key: a\nvalue:\n  - 1\n", "/-1", "2"},
		"an alias":             {"key: a\nvalue:\n  x: &x\n    y: 1\n  z: *x\n", "/z/y", "4"},
		"the whole value":      {"key: a\n\nvalue:\n  c: 1\n", "", "3"},
		"no value":             {"\n\nkey: a\n", "", "3"},
		"escapes":              {"key: a\nvalue:\n  a/b: 1\n  c~1d: 1\n  \"\": 1\n", "/c~01d", "4"},
		"an empty name":        {"key: a\nvalue:\n  a/b: 1\n  \"\": 1\n", "/", "4"},
		"a slash":              {"key: a\nvalue:\n  c: 1\n  a/b: 1\n", "/a~1b", "4"},
		"text":                 {"key: a\ntext: |\n  {\n    \"b\": 1\n  }\n", "/b", "4"},
		"quoted text":          {"key: a\ntext: '{\"b\": 1}'\n", "/b", "2"},
		"text that is no JSON": {"key: a\ntext: |\n  x\n", "/b", "3"},
		"the second document":  {"key: a\n---\nkey: b\nvalue: {c: 1}\n", "/c", "4"},
		"JSON":                 {"\n{\"key\": \"a\",\n \"value\": {\"b\": [1,\n 2]}}", "/b/1", "4"},
		"JSON on a line":       {`{"key": "a"}` + "\n\n" + `{"key": "b", "value": 1}`, "", "3"},
		"JSON in an array":     {"[\n{\"key\": \"a\"},\n{\"key\": \"b\",\n\"value\":\n{\"c\":\n 1}}]", "/c", "6"},
		"JSON without it":      {"{\"key\": \"a\",\n \"value\": {\"b\": 1}}", "/c", "2"},
		"text in JSON":         {"{\"key\": \"a\",\n \"text\": \"{\\n\\\"b\\\": 1}\"}", "/b", "2"},
	} {
		t.Run(name, func(t *testing.T) {
			all, err := Source{Path: "-", Stdin: strings.NewReader(c.text), Lines: true}.Documents(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if got, want := all[len(all)-1].Place(c.pointer), "standard input line "+c.want; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
	all, err := Read("f", []byte("key: a\nvalue:\n  b: 1\n"), Auto)
	if err != nil || all[0].Place("/b") != "f line 1" {
		t.Errorf("without lines: got %q, %v", all[0].Place("/b"), err)
	}
	for text, plain := range map[string]bool{`{"percent": 1}`: true, "12": true, "[1]": true, "key: a\nx: 1": false, `{"key": "a", "x": 1}`: false} {
		if _, err := Read("f", []byte(text), Auto); err == nil || errors.Is(err, ErrPlainValue) != plain {
			t.Errorf("%s: got %v, want a plain value: %v", text, err, plain)
		}
	}
}
