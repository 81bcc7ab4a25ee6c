package document

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadReadsYAMLAndJSON(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string // keys and values, or an error
	}{
		"nothing":                  {"", nil},
		"a control character":      {"key: \x01", []string{"cannot read s: control characters are not allowed (value: 1)"}},
		"only spaces":              {" \n\n", nil},
		"JSON lines":               {`{"key":"a","text":"x"}` + "\n" + `{"key":"b","value":{"n":1.10}}`, []string{"a x", `b {"n":1.10}`}},
		"JSON array":               {` [{"key":"a","text":"x"}, {"key":"b","data":"AQI="}]` + "\n", []string{"a x", "b \x01\x02"}},
		"empty array":              {"[]", nil},
		"open array":               {`[{"key":"a"}`, []string{"a ", "cannot read s (document 2): unexpected EOF"}},
		"YAML":                     {"key: a\ntext: x\n---\nkey: b\nvalue:\n  z: 1\n  a: [yes, 2, 3.0, null, 0x10]\n", []string{"a x", `b {"z":1,"a":["yes",2,3.0,null,16]}`}},
		"YAML separators":          {"---\n---\nkey: a\n...\n---\n# nothing\n---\n", []string{"a "}},
		"blank lines before YAML":  {"\n\n  key: a\n  x: 1\n", []string{`cannot read s line 4, column 3: unknown field "x"`}},
		"a byte order mark":        {"\ufeff{\"key\":\"a\"}", []string{"a "}},
		"a mark before YAML":       {"\ufeffkey: a\n", []string{"a "}},
		"block text":               {"key: a\ntext: |\n  x\n  --- y\n", []string{"a x\n--- y\n"}},
		"alias":                    {"key: a\nvalue: {x: &x [1], y: *x}\n", []string{`a {"x":[1],"y":[1]}`}},
		"recursive alias":          {"key: a\nvalue: &x [*x]\n", []string{"cannot read s line 2, column 8: nested too deeply"}},
		"doubling aliases":         {"key: a\nvalue:\n  a0: &a0 [" + strings.Repeat("x, ", 99) + "x]\n" + doubling(30), []string{"cannot read s line 4, column 17: aliases make the document too large"}},
		"no key":                   {"text: x", []string{"cannot read s line 1: document without a key"}},
		"two values":               {"key: a\ntext: x\ndata: eA==\n", []string{`cannot read s line 1: document of "a" has more than one of value, text and data`}},
		"unknown":                  {"key: a\nvlaue: 1\n", []string{`cannot read s line 2, column 1: unknown field "vlaue" (did you mean "value"?)`}},
		"twice":                    {"key: a\ntext: x\nkey: b\n", []string{`cannot read s line 3, column 1: duplicate key "key"`}},
		"twice in JSON":            {`{"key":"a","text":"x","key":"b"}`, []string{`cannot read s (document 1): duplicate key "key"`}},
		"twice, escaped":           {`{"key":"a","text":"x","\u006bey":"b"}`, []string{`cannot read s (document 1): duplicate key "key"`}},
		"a label twice":            {`{"key":"a","labels":{"env":"x","env":"y"}}`, []string{`cannot read s (document 1): duplicate key "env"`}},
		"twice in it":              {`{"key":"a","value":[1e999,{"n":1,"m":{},"n":1}]}`, []string{`cannot read s (document 1): duplicate key "n"`}},
		"twice, not in one object": {`{"key":"a","value":[{"n":1},{"n":1e999,"N":{"n":1}}]}`, []string{`a [{"n":1},{"n":1e999,"N":{"n":1}}]`}},
		"other case":               {`{"Key":"a","text":"x"}`, []string{`cannot read s (document 1): unknown field "Key" (did you mean "key"?)`}},
		"other case in YAML":       {"key: a\ncontenttype: text/plain\n", []string{`cannot read s line 2, column 1: unknown field "contenttype" (did you mean "contentType"?)`}},
		"right and other case":     {`{"key":"a","KEY":"b"}`, []string{`cannot read s (document 1): unknown field "KEY" (did you mean "key"?)`}},
		"broken text":              {`{"key":"a"}` + "\n{\"key\":\"b\",\"text\":\"\xff\"}", []string{"a ", "cannot read s (document 2): not valid UTF-8"}},
		"broken key":               {"{\"key\":\"\xff\"}", []string{"cannot read s (document 1): not valid UTF-8"}},
		"YAML list":                {"- key: a\n  text: x\n- key: b\n", []string{"a x", "b "}},
		"text in YAML":             {"key: a\n---\n\n# a comment\nkey: b\ntext: 12\n", []string{"a ", "cannot read s line 6, column 7: text: must be a string, not 12; quote it"}},
		"label in YAML":            {"key: a\nlabels:\n  n: 1\n", []string{"cannot read s line 3, column 6: labels.n: must be a string, not 1; quote it"}},
		"labels in YAML":           {"key: a\nlabels:\n  - x\n", []string{"cannot read s line 3, column 3: labels: must be a mapping, not a list"}},
		"no mapping in YAML":       {"just text", []string{"cannot read s line 1, column 1: want a document with a key"}},
		"indentation":              {"key: a\n  text: x\n", []string{"cannot read s line 2, column 7: unexpected ':'; check the indentation, or quote the value"}},
		"missing key":              {"key: a\n- x\n", []string{"cannot read s line 2, column 1: want a key here; check the indentation (parsing a block mapping from line 1)"}},
		"open list":                {"key: a\nvalue: [1, 2\n---\nkey: b\n", []string{"cannot read s line 3, column 1: ',' or ']' is missing (parsing a flow sequence from line 2)"}},
		"tab":                      {"key: a\nlabels:\n\ta: b\n", []string{"cannot read s line 3, column 1: a value cannot begin with this character; quote it, and indent with spaces instead of tabs"}},
		"open quote":               {"key: \"a\n", []string{"cannot read s line 2, column 1: the closing quote is missing (scanning a quoted scalar from line 1)"}},
		"no base64":                {"key: a\ndata: '%'\n", []string{"cannot read s line 1: data is not base64"}},
		"text in JSON":             {`{"key":"a","text":3}`, []string{"cannot read s (document 1): text: must be a string, not 3; quote it"}},
		"text":                     {`"key"`, []string{"cannot read s line 1, column 1: want a document with a key"}},
		"what get prints":          {`{"key":"a","text":"x","modRevision":7,"createRevision":3,"version":2}`, []string{"a x"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			documents, err := Read("s", []byte(c.text), Auto)
			for _, d := range documents {
				got = append(got, d.Key+" "+string(d.Bytes()))
			}
			if err != nil {
				got = append(got, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// doubling returns YAML in which each line doubles the one before with aliases.
func doubling(lines int) string {
	var b strings.Builder
	for i := range lines {
		fmt.Fprintf(&b, "  a%d: &a%d [*a%d, *a%d]\n", i+1, i+1, i, i)
	}
	return b.String()
}

// A raw file whose name cannot be a key is an error.
func TestRawFileNamesMustBeUTF8(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "caf\xe9"), []byte("x"), 0o600); err != nil {
		t.Skip("the file system does not allow such a name: ", err)
	}
	if _, err := (Source{Path: dir, Raw: true}).Documents(t.Context()); err == nil || !strings.Contains(err.Error(), `caf\xe9" is not valid UTF-8`) {
		t.Error(err)
	}
}
