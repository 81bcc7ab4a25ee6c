package yamlfile_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"

	"github.com/fanoutd/fanoutd/internal/yamlfile"
)

// upper is a value with its own syntax.
type upper string

func (u *upper) UnmarshalText(text []byte) error {
	if *u = upper(text); strings.ToUpper(string(text)) != string(text) {
		return fmt.Errorf("%q has small letters", text)
	}
	return nil
}

type settings struct {
	Name  string            `yaml:"name"`
	Count int               `yaml:"count"`
	Rate  float64           `yaml:"rate"`
	On    bool              `yaml:"on"`
	Code  upper             `yaml:"code"`
	List  []part            `yaml:"list"`
	Tags  map[string]string `yaml:"tags"`
	Any   yaml.Node         `yaml:"any"`
	Part  part              `yaml:",inline"`
	Own   int               `yaml:"-"`
}

type part struct {
	ID *int `yaml:"id"`
}

func read(text string) (settings, error) {
	s := settings{Name: "default"}
	f := yamlfile.Open("f", []byte(text))
	if f.Root != nil {
		f.Decode(f.Root, &s)
	}
	return s, f.Err()
}

func TestDecode(t *testing.T) {
	s, err := read("count: 0x10\nrate: 2\non: true\ncode: A\nlist: [&x {id: 1}, *x, {<<: *x}]\ntags: {a: 1}\nany: [null]\nid: 3")
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintln(s.Name, s.Count, s.Rate, s.On, s.Code, len(s.List), *s.List[2].ID, s.Tags, len(s.Any.Content), *s.Part.ID)
	if want := "default 16 2 true A 3 1 map[a:1] 1 3\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"", "# nothing", "---", "null"} {
		if s, err := read(text); err != nil || s.Name != "default" {
			t.Errorf("%q: got %+v, %v", text, s, err)
		}
	}
}

// All problems are reported at once, in the order of the file and with their places.
func TestProblems(t *testing.T) {
	var bomb strings.Builder
	bomb.WriteString("any0: &a0 [x, x, x, x, x, x, x, x, x, x]\n")
	for i := range 9 {
		fmt.Fprintf(&bomb, "any%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	for text, want := range map[string]string{
		"\xff":                       "f: not UTF-8 text",
		"name: \x01":                 "f: control characters are not allowed (value: 1)",
		"rate: !!float x":            "f: cannot construct !!str `x` as a !!float",
		"name: a\n---\n":             "f:2:1: only one document is allowed",
		"name: a\n---\n*":            `f:3:2: want a name here; quote values that begin with "*" or "&"`,
		"name: *a":                   `f:1:7: unknown anchor 'a' referenced; quote values that begin with "*"`,
		"name: a\nname: b":           `f:2:1: mapping key "name" already defined at line 1`,
		"any: {a: {b: 1, b: 2}}":     `f:1:17: mapping key "b" already defined at line 1`,
		"any: &x [*x]":               "f:1:10: anchor 'x' value contains itself",
		"list: [\n":                  "f:2:1: want a value or a closing bracket here",
		"- a":                        "f:1:1: must be a mapping, not a list",
		"a":                          "f:1:1: must be a mapping, not a",
		"own: 1":                     `f:1:1: unknown field "own" (want any, code, count, id, list, name, on, rate, tags)`,
		"mane: a":                    `f:1:1: unknown field "mane" (did you mean "name"?)`,
		"mame: a":                    `f:1:1: unknown field "mame" (did you mean "name"?)`,
		"coumt: 1":                   `f:1:1: unknown field "coumt" (did you mean "count"?)`,
		"list-any: 1":                `f:1:1: unknown field "list-any" (did you mean "any" or "list"?)`,
		"part-id: 1":                 `f:1:1: unknown field "part-id" (did you mean "id"?)`,
		"list: [{rate: 1}]":          `f:1:9: unknown field "rate" (did you mean "rate" at the top level?)`,
		"list-id: 1":                 `f:1:1: unknown field "list-id" (did you mean "list[].id"?)`,
		"code-of-the-item: 1":        `f:1:1: unknown field "code-of-the-item" (want any, code, count, id, list, name, on, rate, tags)`,
		"list: [{x: 1, <<: {y: 1}}]": `f:1:9: unknown field "x" (want id)`,
		"list: [{<<: {y: 1}}]":       `f:1:14: field y not found in type yamlfile_test.part`,
		bomb.String():                "f:1:18: document contains excessive aliasing",
		"name: [a]\ncount: many\nrate: x\non: 1\nlist: {}\ntags: []\nid: 1.5": `f:1:7: must be a string, not a list
f:2:8: must be a whole number, not many
f:3:7: must be a number, not x
f:4:5: must be true or false, not 1
f:5:7: must be a list, not a mapping
f:6:7: must be a mapping, not a list
f:7:5: must be a whole number, not 1.5`,
		"list: [null, {id: }]\ncode:\nname: ~\n": "f:1:8: missing value\nf:1:19: missing value\nf:2:6: missing value\nf:3:7: missing value",
		"code: a\ncount: 99999999999999999999":   "f:2:8: must be a whole number, not 99999999999999999999",
		"code: a":                                `f:1:7: "a" has small letters`,
	} {
		if _, err := read(text); err == nil || err.Error() != want {
			t.Errorf("%.80q: got\n%v\nwant\n%s", text, err, want)
		}
	}
}

// A problem with a key has the place of its value, or of the nearest value above.
func TestLocate(t *testing.T) {
	f := yamlfile.Open("f", []byte("list:\n- {id: 1}\n- &x\n  id: 2\n- *x\n"))
	for key, want := range map[string]string{
		"list[0].id": "f:2:8", "list[0].x": "f:2:3", "list[1].id": "f:4:7", "list[2].id": "f:4:7", "list[3].id": "f:2:1", "name": "", "": "",
	} {
		p := f.Locate(yamlfile.Problems{{Key: key, Message: "m"}})[0]
		p.Key = ""
		if got := strings.TrimSuffix(strings.TrimSuffix(p.Error(), "m"), ": "); got != want {
			t.Errorf("%s: got %q, want %q", key, got, want)
		}
	}
	p := yamlfile.Problem{Origin: "--list", Key: "list", Message: "m"}
	if got := f.Locate(yamlfile.Problems{p})[0]; got != p {
		t.Errorf("got %+v, want %+v", got, p)
	}
}

// What was not read from YAML has keys instead of places, and null and strings as in JSON.
func TestCheckJSON(t *testing.T) {
	type record struct {
		Text   *string           `json:"text,omitempty"`
		Labels map[string]string `json:"labels"`
	}
	number, text := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: "1"}, &yaml.Node{Kind: yaml.ScalarNode, Value: "labels"}
	label := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{{Kind: yaml.ScalarNode, Value: "a"}, number}}
	n := &yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{text, label}}
	want := "labels.a: must be a string, not 1; quote it"
	if err := yamlfile.CheckJSON(n, reflect.TypeFor[record]()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	number.Tag, number.Value = "!!null", "null"
	if err := yamlfile.CheckJSON(n, reflect.TypeFor[record]()); err != nil {
		t.Error(err)
	}
}
