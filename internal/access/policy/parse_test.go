package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/access/policy"
)

// Parse reports all faults at once, each with its place.
func TestParseReportsProblems(t *testing.T) {
	for _, test := range []struct{ name, file, want string }{
		{"an empty file", "", `f: is empty; write "rules: []" to grant nothing`},
		{"a comment", "# nothing", `f: is empty; write "rules: []" to grant nothing`},
		{"not text", "rules: [\xff]", `f: not UTF-8 text`},
		{"another document", "rules: []\n---\nrules: []", `f:2:1: only one document is allowed`},
		{"no rules", "groups: {a: [b]}", `f:1:1: "rules" is missing`},
		{"rules without a value", "rules:", `f:1:7: missing value`},
		{"a list", "- a", `f:1:1: must be a mapping, not a list`},
		{"a field twice", "rules: []\nrules: []", `f:2:1: mapping key "rules" already defined at line 1`},
		{"not YAML", "rules: [\n", `f:2:1: want a value or a closing bracket here`},
		{"an alias", "groups: &a {b: [c]}\nrules: *a", "f:2:8: aliases and merges are not allowed in a policy"},
		{"a merge", "rules: [{<<: {verbs: [get]}}]", "f:1:10: aliases and merges are not allowed in a policy"},
		{"a group twice", "groups: {a: [b], a: [c]}\nrules: []", `f:1:18: mapping key "a" already defined at line 1`},
		{"not a list of rules", "groups: []\nrules: {a: b}", "f:1:9: must be a mapping\nf:2:8: must be a list, not a mapping"},
		{"a rule that is none", "rules: [a]", "f:1:9: must be a mapping, not a"},
		{"a list that is none", "rules: [{subjects: a, verbs: [get], resources: [b]}]", "f:1:20: must be a list"},
		{"an empty list of keys", "rules: [{subjects: [a], verbs: [get], resources: [b], keys: []}]", "f:1:61: must not be an empty list"},
		{"a star without quotes", "rules: [{verbs: [*]}]", `f:1:19: want a name here; quote values that begin with "*" or "&"`},
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
- {verbs: [get, metrics], subjects: [e], resources: [config]}
- {resources: ["*"], subjects: [e], verbs: [metrics], prefixes: [a]}
`, `f:2:1: unknown field "grups" (did you mean "groups"?)
f:4:9: "al*": * must stand alone or follow / or :, or it would match unrelated names with the same beginning
f:4:14: must not be empty
f:4:18: "a*/*" has a * where it is not a wildcard
f:5:3: "a*" has a * where it is not a wildcard
f:7:13: must not be an empty list
f:8:12: "*" has a * where it is not a wildcard
f:9:11: unknown verb "read" (want get, list, watch, put, delete, admin, metrics, history, purge, skip-validation)
f:9:17: must be a string; quote it if YAML takes it for something else
f:9:20: must be a string; quote it if YAML takes it for something else
f:10:15: "Config" is neither the name of a resource (a-z, 0-9 and -) nor *
f:10:28: "x*" is neither the name of a resource (a-z, 0-9 and -) nor *
f:14:10: "a/" looks like a prefix; list it under prefixes
f:14:14: "a/*" looks like a prefix; list it under prefixes
f:14:19: must not be empty
f:15:14: "/" is not a prefix; a rule without keys and prefixes covers the whole resource
f:15:17: "" is not a prefix; a rule without keys and prefixes covers the whole resource
f:15:21: "a/*" has a *, which a prefix does not need: it covers everything below it
f:15:26: "a//b" has an empty segment
f:15:32: "/a" has an empty segment
f:17:16: admin applies to whole resources: move it to a rule without keys and prefixes
f:20:17: metrics applies to the whole server: move it to a rule with the resource "*", without keys and prefixes
f:21:45: metrics applies to the whole server: move it to a rule with the resource "*", without keys and prefixes`},
	} {
		_, err := policy.Parse("f", []byte(test.file))
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: got\n%v\nwant\n%s", test.name, err, test.want)
		}
	}
}

// The lists of a rule multiply. A policy that would take too much memory is refused
// before it does.
func TestParseRefusesTooManyRights(t *testing.T) {
	var names []string
	for i := range 1001 {
		names = append(names, fmt.Sprint("n", i))
	}
	list := strings.Join(names, ", ")
	_, err := policy.Parse("f", fmt.Appendf(nil, "rules: [{subjects: [%s], verbs: [get], resources: [config], keys: [%s]}]", list, list))
	if err == nil || !strings.Contains(err.Error(), "too many rights") {
		t.Errorf("got %v, want too many rights", err)
	}
}
