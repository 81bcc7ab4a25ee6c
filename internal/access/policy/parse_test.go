package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/access/policy"
)

// What is wrong is told at once, each with where it is.
func TestProblems(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"an empty file", "", `f: is empty; "rules: []" grants nothing to anybody`},
		{"a comment", "# nothing", `f: is empty; "rules: []" grants nothing to anybody`},
		{"not text", "rules: [\xff]", `f: not UTF-8 text`},
		{"another document", "rules: []\n---\nrules: []", `f:2:1: there must be only one document`},
		{"no rules", "groups: {a: [b]}", `f:1:1: there is no "rules"`},
		{"rules without a value", "rules:", `f:1:8: must be a list`},
		{"a list", "- a", `f:1:1: must be fields with values`},
		{"a field twice", "rules: []\nrules: []", `f:2:1: mapping key "rules" already defined at [1:1]`},
		{"not YAML", "rules: [\n", `f:1:8: sequence end token ']' not found`},
		{"an alias", "groups: &a {b: [c]}\nrules: *a", "f:1:9: must be fields with values\nf:2:8: must be a list"},
		{"a star without quotes", "rules: [{verbs: [*]}]", "f:1:19: unexpected scalar value type\nf:1:19: write \"*\" in quotes"},
		{"nothing in a rule", "rules:\n- {}", `f:2:3: the rule has no "subjects" and no "groups"
f:2:3: the rule has no "verbs"
f:2:3: the rule has no "resources"`},
		{"all kinds of mistakes", `
grups: {}
groups:
  ops: [al*, "", "a*/*", anonymous]
  "a*": [b]
rules:
- subjects: []
  groups: ["*"]
  verbs: [read, 1, null]
  resources: [Config, "*", "x*"]
- subjects: [c]
  verbs: ["*"]
  resources: [config]
  keys: [a/, a/*, ""]
  prefixes: [/, "", a/*, a//b, /a]
- subjects: [d]
  verbs: [get, admin]
  resources: [config]
  keys: [a]
`, `f:2:1: unknown field "grups", there are groups, rules
f:4:9: "al*": a * stands alone or behind / or :, else it would match names that only begin alike
f:4:14: must not be empty
f:4:18: "a*/*" has a * where it cannot stand for anything
f:5:3: "a*" has a * where it cannot stand for anything
f:7:13: must not be an empty list
f:8:12: "*" has a * where it cannot stand for anything
f:9:11: "read" is not a verb, they are get, list, watch, put, delete, admin
f:9:17: must be text, in quotes where it could be taken for something else
f:9:20: must be text, in quotes where it could be taken for something else
f:10:15: "Config" is not the name of a resource, which has a-z, 0-9 and -; nor is it *
f:10:28: "x*" is not the name of a resource, which has a-z, 0-9 and -; nor is it *
f:14:10: "a/" looks like a prefix, which belongs into prefixes
f:14:14: "a/*" looks like a prefix, which belongs into prefixes
f:14:19: must not be empty
f:15:14: "/" is not a prefix; a rule without keys and prefixes is one for the whole resource
f:15:17: "" is not a prefix; a rule without keys and prefixes is one for the whole resource
f:15:21: "a/*" has a *, which prefixes do without: they cover all that is below
f:15:26: "a//b" has an empty segment
f:15:32: "/a" has an empty segment
f:17:16: admin is a right on whole resources: it takes a rule of its own, without keys and prefixes`},
	} {
		_, err := policy.Parse("f", []byte(test.file))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got\n%v\nwant\n%s", test.name, err, test.want)
		}
	}
}

// Lists multiply. What would take too much memory is refused before it does.
func TestTooManyRights(t *testing.T) {
	var names []string
	for i := range 1001 {
		names = append(names, fmt.Sprint("n", i))
	}
	list := strings.Join(names, ", ")
	_, err := policy.Parse("f", fmt.Appendf(nil, "rules: [{subjects: [%s], verbs: [get], resources: [config], keys: [%s]}]", list, list))
	if err == nil || !strings.Contains(err.Error(), "is too much") {
		t.Error(err)
	}
}
