package validation_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/validation"
)

func parse(t testing.TB, text string) *validation.Set {
	t.Helper()
	set, err := validation.Parse("rules.yaml", [][]byte{[]byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// check returns the faults of a write, one a line; the key is flags/a unless it has another.
func check(t testing.TB, set *validation.Set, w *validation.Write) string {
	t.Helper()
	if w.Key == "" {
		w.Key = "flags/a"
	}
	var lines []string
	checks := set.For(w.Key)
	if checks == nil {
		return "no checks"
	}
	b := validation.NewPatientBudget(1)
	b.Spend(t.Context(), func() {
		for _, v := range checks.Check(b, w) {
			lines = append(lines, strings.TrimSpace(v.Pointer+" "+v.Message))
		}
	})
	return strings.Join(lines, "\n")
}

func document(text string) *validation.Object {
	return &validation.Object{Value: []byte(text), ContentType: object.ContentJSON}
}

const flag = `
checks:
  - keys: [flags/*]
    schema:
      type: object
      required: [percent]
      additionalProperties: false
      properties:
        percent: {type: integer, minimum: 0, maximum: 100}
        owner: {type: string, pattern: "^[a-z]+$"}
        mode: {enum: [a, b]}
        since: {type: string, format: date}
        names: {type: array, uniqueItems: true, items: {type: string, minLength: 2}}
        either: {anyOf: [{type: string}, {type: object, required: [x]}]}
    rules:
      - rule: self.percent < 50 || has(self.owner)
        message: a flag for more than half of the users needs an owner
      - rule: oldSelf == null || self.percent - oldSelf.percent <= 10
        message: percent must not grow by more than 10 at once
        path: /percent
`

func TestSchemasAndRules(t *testing.T) {
	set := parse(t, flag)
	for value, want := range map[string]string{
		`{"percent": 5}`:                   "",
		`{"percent": 5000}`:                "/percent must be at most 100, is 5000",
		`{"percent": -1}`:                  "/percent must be at least 0, is -1",
		`{"percent": "5"}`:                 `/percent must be integer, is "5"`,
		`{"percent": 5.0}`:                 "",
		`{"percent": 0.5}`:                 "/percent must be integer, is 0.5",
		`{}`:                               "/percent is required, but missing",
		`[]`:                               "must be object, is an array with 0 items",
		`{"percent": 1, "x": 1}`:           "/x is not allowed here; allowed are either, mode, names, owner, percent, since",
		`{"percent": 1, "owner": "A"}`:     `/owner must match the pattern ^[a-z]+$, is "A"`,
		`{"percent": 1, "mode": "c"}`:      `/mode must be one of "a", "b"; is "c"`,
		`{"percent": 1, "since": "today"}`: `/since must be a valid date, is "today"`,
		`{"percent": 1, "names": ["aa", "aa", "b"]}`: "/names must have distinct items, but items 0 and 1 are equal\n" +
			"/names/2 must have at least 2 characters, has 1",
		`{"percent": 1, "either": 1}`:            "/either matches none of the 2 allowed forms; for the closest, must be string, is 1",
		`{"percent": 60}`:                        "a flag for more than half of the users needs an owner",
		`{"percent": 60, "owner": "ada"}`:        "",
		`{"percent": 1, "percent": 5000}`:        "/percent is there more than once, and readers differ in which one they see",
		`{"percent": 100.000000000000000001}`:    "/percent has more digits than can be checked: 100.000000000000000001 would be rounded to 100",
		`{"percent": 0.99999999999999999999}`:    "/percent has more digits than can be checked: 0.99999999999999999999 would be rounded to 1",
		`{"percent": 1e-400}`:                    "/percent has more digits than can be checked: 1e-400 would be rounded to 0",
		`{"percent": 1e-99999999999999999999}`:   "/percent has more digits than can be checked: 1e-99999999999999999999 would be rounded to 0",
		`{"percent": 0.0e-99999999999999999999}`: "",
		`{"percent": 0.20e+02}`:                  "",
		`{"percent": 2000e-2}`:                   "",
		`{"percent": 2010e-2}`:                   "/percent must be integer, is 20.1",
		`{"percent": -0e0}`:                      "",
		`{"percent": 1e999}`:                     "/percent is too large for a number: 1e999",
		`{"percent": 1, `:                        "is not JSON: fault at byte 15",
		strings.Repeat("[", 200):                 strings.Repeat("/0", 78) + "/... is nested deeper than 100, which is too deep to check",
	} {
		if diff := cmp.Diff(want, check(t, set, &validation.Write{New: document(value)})); diff != "" {
			t.Errorf("%.60s: -want +got:\n%s", value, diff)
		}
	}
	if got, want := check(t, set, &validation.Write{New: document(`{"percent": 30}`), Old: document(`{"percent": 10}`)}), "/percent percent must not grow by more than 10 at once, is 30"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := check(t, set, &validation.Write{New: &validation.Object{Value: []byte("x"), ContentType: object.ContentText}}), `must be JSON, because there is a schema for it; its content type is "text/plain; charset=utf-8"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	for _, text := range []string{"11", "11.0", "1.1e1", "110e-1"} {
		if got := check(t, set, &validation.Write{New: document(`{"percent": ` + text + `}`), Old: document(`{"percent": 10.0}`)}); got != "" {
			t.Errorf("from 10.0 to %s: %s", text, got)
		}
	}
	for _, key := range []object.Key{"flags", "flags/a/b", "other/a"} {
		if set.For(key) != nil {
			t.Errorf("%s is checked", key)
		}
	}
}

// A schema and a rule see the integer that was written, or the value is refused.
func TestLargeIntegersAreNotRounded(t *testing.T) {
	const bounds = "schema: {minimum: -1e40, maximum: 1e40}"
	for _, c := range []struct{ checks, n, want string }{
		{"schema: {maximum: 18446744073709551615}", "18446744073709551615", ""},
		{"schema: {maximum: 18446744073709551614}", "18446744073709551615", "must be at most 18446744073709551614, is 18446744073709551615"},
		{"schema: {const: 9223372036854775809}", "9223372036854775808", "must be 9223372036854775809, is 9223372036854775808"},
		{"schema: {type: integer, enum: [9223372036854775809]}", "9223372036854775809", ""},
		{"schema: {maximum: 123456789012345678901234567890}", "5", ""},
		{bounds, "123456789012345678901234567890", "has more digits than can be checked: 123456789012345678901234567890 would be rounded to 1.2345678901234568e+29"},
		{bounds, "18446744073709551617", "has more digits than can be checked: 18446744073709551617 would be rounded to 1.8446744073709552e+19"},
		{bounds, "-9223372036854775809", "has more digits than can be checked: -9223372036854775809 would be rounded to -9.223372036854776e+18"},
		{bounds, "1.8446744073709551617e19", "has more digits than can be checked: 1.8446744073709551617e19 would be rounded to 1.8446744073709552e+19"},
		{bounds, "9007199254740993.0", "has more digits than can be checked: 9007199254740993.0 would be rounded to 9.007199254740992e+15"},
		{bounds, "100000000000000000000000", ""},
		{bounds, "-1.50e30", ""},
		{`rules: [{rule: "self > 5 && self > 9223372036854775807 && self > 5.5 && self != 5 && self in [self]", message: m}]`, "18446744073709551615", ""},
		{`rules: [{rule: "self == 18446744073709551615u && uint(self) - 1u == 18446744073709551614u", message: m}]`, "18446744073709551615", ""},
		{`rules: [{rule: "self < 18446744073709551615u", message: m}]`, "18446744073709551614", ""},
		{`rules: [{rule: "uint(self) + 1u < 10u", message: m}]`, "5", ""},
	} {
		if got := check(t, parse(t, "checks:\n- "+c.checks), &validation.Write{New: document(c.n)}); got != c.want {
			t.Errorf("%s, %s: got %q, want %q", c.checks, c.n, got, c.want)
		}
	}
}

func TestKeysWithoutChecksCostNothing(t *testing.T) {
	set := parse(t, flag)
	if n := testing.AllocsPerRun(100, func() { _ = set.For("other/key") }); n > 0 {
		t.Errorf("got %v allocations", n)
	}
}

func TestVariables(t *testing.T) {
	ada := validation.Identity{Name: "ada", Groups: []string{"web"}, Method: "token"}
	labeled := &validation.Object{Value: []byte("text"), ContentType: object.ContentText, Labels: map[string]string{"team": "web"}}
	binary := &validation.Object{Value: []byte{0xff, 1}, ContentType: object.ContentBinary}
	for rule, w := range map[string]*validation.Write{
		`self == "text" && labels["team"] == "web"`: {New: labeled},
		`size(self) == 2`: {New: binary},
		`oldSelf == null && size(oldLabels) == 0 && size(labels) == 0`: {New: binary},
		`oldSelf == "text" && oldLabels.team == "web"`:                 {New: binary, Old: labeled},
		`key == "flags/a" && key.startsWith("flags/")`:                 {New: binary},
		`identity.name == "ada" && "web" in identity.groups`:           {New: binary, Identity: ada},
		`identity.method == ""`:                                        {New: binary},
		`self.a * 2 == 4 && self.b < 1 && self.c == [1, 2]`:            {New: document(`{"a": 2, "b": 0.5, "c": [1, 2]}`)},
		`self.all(k, self[k] > 0)`:                                     {New: document(`{"a": 2, "b": 0.5}`)},
		`self == null`:                                                 {New: document("null")},
	} {
		text, _ := json.Marshal(rule)
		set := parse(t, fmt.Sprintf("checks: [{rules: [{rule: %s, message: wrong}]}]", text))
		if got := check(t, set, w); got != "" {
			t.Errorf("%s: %s", rule, got)
		}
	}
}

// A rule that cannot be evaluated refuses the write, and says that this is about the rule, which may be wrong. It
// does not say that a member of the value is.
func TestRulesThatCannotBeEvaluated(t *testing.T) {
	for _, c := range []struct{ rule, old, value, want string }{
		{`self.owner != ""`, `{}`, `{"percent": 1}`, "no such key: owner (add it to the value, or let the rule test for it with has())"},
		{`oldSelf.owner != ""`, `{}`, `{"owner": "ada"}`, "no such key: owner (add it to the value, or let the rule test for it with has())"},
		{`self.percent + 0.5 > 1.0`, `{}`, `{"percent": 1}`, "no such overload (a value has another type than the rule expects)"},
		{`self.percent / oldSelf.percent < 2`, `{"percent": 0}`, `{"percent": 1}`, "division by zero"},
		{`self.percent`, `{}`, `{"percent": 1}`, "its result is of type int, not bool"},
	} {
		text, _ := json.Marshal(c.rule)
		set := parse(t, "checks:\n- rules:\n  - rule: "+string(text)+"\n    message: percent must be small\n    path: /percent\n")
		got := check(t, set, &validation.Write{New: document(c.value), Old: document(c.old)})
		if want := fmt.Sprintf(`cannot be checked: the rule "percent must be small" (line 3: %s) cannot be evaluated: %s`, c.rule, c.want); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.rule, got, want)
		}
	}
}

func TestDeletes(t *testing.T) {
	set := parse(t, `
checks:
  - keys: [a/**]
    schema: {type: object}
    rules:
      - {rule: 'identity.name == "ada"', message: only ada may do this, deletes: true}
      - {rule: 'self.x == 1', message: x must be 1}
  - keys: [b]
    rules: [{rule: 'true', message: fine}]
`)
	w := &validation.Write{Key: "a/x/y", Old: document(`{}`)}
	if got, want := check(t, set, w), "only ada may do this"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	w.Identity.Name = "ada"
	if got := check(t, set, w); got != "" {
		t.Error(got)
	}
	if !set.For("a/b").ApplyToDeletes() || set.For("b").ApplyToDeletes() || set.For("c").ApplyToDeletes() {
		t.Error("wrong keys have rules for deletes")
	}
}

func TestRefusedFiles(t *testing.T) {
	rule := func(rule string) string { return "checks:\n- rules:\n  - rule: " + rule + "\n    message: m\n" }
	for text, want := range map[string]string{
		"":                                       `is empty`,
		"checks: [{}]":                           `neither a schema nor rules`,
		"check: []":                              `unknown field "check"`,
		"checks: [{keys: ['a*'], schema: true}]": `* and ** stand for whole segments`,
		"checks: [{keys: ['**/a'], schema: true}]": `** before its end`,
		"checks: [{keys: [], schema: true}]":       `must not be an empty list`,
		"checks: [{schema: {type: nothing}}]":      `schema:`,
		"checks: [{schema: {pattern: '('}}]":       `schema:`,
		"checks: [{schema: {pattern: '(?:a{500}){2}b{900}(?:c{300}){3}(?:d{999})(?:e{900})(?:f{900})(?:g{900})'}}]": `instructions`,
		"checks: [{schema: {$ref: 'https://example.com/a.json'}}]":                                                  `references to other documents are not allowed`,
		"checks: [{schema: {$ref: 'file:///etc/passwd'}}]":                                                          `references to other documents are not allowed`,
		"checks: [{schema: {$ref: 'http://json-schema.org/draft-07/schema#'}}]":                                     `references to other documents are not allowed`,
		"checks: [{schema: {$ref: 'https://json-schema.org/draft/2020-12/meta/validation'}}]":                       `not `,
		"checks: [{schema: {$ref: other.json}}]":                                                                    `references to other documents are not allowed`,
		"checks: [{schema: {$schema: 'https://example.com/'}}]":                                                     `references to other documents are not allowed`,
		"checks: [{schema: {$dynamicRef: '#a', $defs: {b: {$dynamicAnchor: a}}}}]":                                  `not supported`,
		"checks: [{schema: ../outside.json}]":                                                                       `in the directory of this one`,
		rule("self.x ="):                                                                                            `line 1, column`,
		rule("unknown == 1"):                                                                                        `undeclared reference`,
		rule("size(key)"):                                                                                           `must be true or false, is of type int`,
		rule(`'[1]` + strings.Repeat(".map(a, [a])", 20) + ` == [1]'`):                                              `has 82 lists, maps and loops`,
		rule(`'size(` + strings.Repeat("[", 80) + strings.Repeat("]", 80) + `) == 1'`):                              `has 80 lists, maps and loops`,
		rule(`'"x".matches(self.pattern)'`):                                                                         `matches() is not available`,
		rule(`'key.matches("a") && matches(key, "a")'`):                                                             `matches() is not available`,
		rule(`'"x".replace("a", "b") == ""'`):                                                                       `undeclared reference`,
		"checks: [{rules: [{rule: 'true'}]}]":                                                                       `"message" is missing`,
		"checks: [{rules: [{message: m}]}]":                                                                         `"rule" is missing`,
		"checks: [{rules: [{rule: 'true', message: m, path: a}]}]":                                                  `must be a JSON pointer`,
	} {
		_, err := validation.Parse("rules.yaml", [][]byte{[]byte(text)})
		if err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), "rules.yaml") {
			t.Errorf("%.80s: got %v, want %s", text, err, want)
		}
	}
}

// A misspelt keyword would check nothing. It is refused with its place, but names that are not keywords are not.
func TestUnknownKeywords(t *testing.T) {
	const draft7 = `$schema: "http://json-schema.org/draft-07/schema#"`
	for schema, want := range map[string][]string{
		"minimun: 1": {`rules.yaml:2:13: unknown keyword "minimun" (did you mean "minimum"?)`},
		"minlength: 1, properties: {a: {requird: [a]}}": {
			`rules.yaml:2:13: unknown keyword "minlength" (did you mean "minLength"?)`,
			`rules.yaml:2:44: unknown keyword "requird" (did you mean "required"?)`,
		},
		"colour: red":                                   {`rules.yaml:2:13: unknown keyword "colour"; the name of an annotation begins with x-`},
		"<<: {typo: 1}":                                 {`rules.yaml:2:18: unknown keyword "typo" (did you mean "type"?)`},
		"prefixItems: [true, {itmes: true}]":            {`rules.yaml:2:34: unknown keyword "itmes" (did you mean "items"?)`},
		"allOf: [{if: {not: {additionalProperty: 1}}}]": {`rules.yaml:2:33: unknown keyword "additionalProperty" (did you mean "additionalProperties"?)`},
		"dependencies: {a: [b], c: {patern: x}}":        {`rules.yaml:2:40: unknown keyword "patern" (did you mean "pattern"?)`},
		"additionalItems: false":                        {`rules.yaml:2:13: the keyword "additionalItems" has no effect in 2020-12`},
		"id: a":                                         {`rules.yaml:2:13: the keyword "id" has no effect in 2020-12`},
		draft7 + ", items: {prefixItems: [true]}":       {`rules.yaml:2:73: the keyword "prefixItems" has no effect in draft-07`},
		"x-a: {minimun: 1}, allOf: [{$ref: '#/x-a'}]":   {`rules.yaml:2:19: unknown keyword "minimun" (did you mean "minimum"?)`},

		"x-unit: percent, x-: {minimun: 1}": nil,
		draft7 + ", definitions: {a: {const: 1}}, items: [{$ref: '#/definitions/a'}], additionalItems: {type: integer}": nil,
		"enum: [{minimun: 1}], const: {minimun: 1}, default: {minimun: 1}, examples: [{minimun: 1}]":                    nil,
		"properties: {minimun: {}}, patternProperties: {minimun: {}}, $defs: {minimun: {}}, definitions: {minimun: {}}": nil,
		"dependentSchemas: {minimun: {}}, dependentRequired: {minimun: [a]}, dependencies: {minimun: [a]}":              nil,
		"$id: a, $anchor: b, $comment: c, title: d, description: e, deprecated: true, readOnly: true, writeOnly: true, contentEncoding: base64, contentMediaType: text/plain, contentSchema: true, unevaluatedItems: true, unevaluatedProperties: true, minContains: 1, maxContains: 2, contains: true, then: true, else: true": nil,
	} {
		var got []string
		if _, err := validation.Parse("rules.yaml", [][]byte{[]byte("checks:\n- schema: { " + schema + "}")}); err != nil {
			got = strings.Split(err.Error(), "\n")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", schema, diff)
		}
	}
	_, err := validation.Parse("dir/rules.yaml", [][]byte{[]byte("checks: [{schema: a.json}]"), []byte("{\"type\": \"object\",\n \"requird\": []}")})
	if want := `dir/rules.yaml: schema dir/a.json:2:2: unknown keyword "requird" (did you mean "required"?)`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A schema that is none is refused in a sentence: the place in the schema, what is allowed, and what was given.
func TestWrongValuesOfKeywords(t *testing.T) {
	const types = `"array", "boolean", "integer", "null", "number", "object", "string"`
	for schema, want := range map[string][]string{
		"{type: nothing}":                       {"rules.yaml:2:18: schema: /type must be one of " + types + `; is "nothing"`},
		"{type: [string, strin]}":               {"rules.yaml:2:27: schema: /type/1 must be one of " + types + `; is "strin"`},
		`{properties: {a: {minimum: "0"}}}`:     {`rules.yaml:2:38: schema: /properties/a/minimum must be number, is "0"`},
		"{properties: {a/b: {required: true}}}": {"rules.yaml:2:41: schema: /properties/a~1b/required must be array, is true"},
		"{enum: 5, minLength: -1, maxLength: 1.5}": {
			"rules.yaml:2:18: schema: /enum must be array, is 5",
			"rules.yaml:2:32: schema: /minLength must be at least 0, is -1",
			"rules.yaml:2:47: schema: /maxLength must be integer, is 1.5",
		},
		"{items: [{type: string}]}":        {"rules.yaml:2:19: schema: /items must be boolean or object, is an array with 1 items"},
		"5":                                {"rules.yaml:2:11: schema: must be boolean or object, is 5"},
		"{pattern: '('}":                   {"rules.yaml:2:21: schema: /pattern must be a valid regex, is \"(\": error parsing regexp: missing closing ): `(`"},
		"{patternProperties: {'(': true}}": {"rules.yaml:2:31: schema: /patternProperties has the member \"(\", whose name is not a valid regex: error parsing regexp: missing closing ): `(`"},
		"{x-a: {type: nothing}, allOf: [{$ref: '#/x-a'}]}":                     {"rules.yaml:2:24: schema: /x-a/type must be one of " + types + `; is "nothing"`},
		"{$schema: 'http://json-schema.org/draft-07/schema#', maxItems: many}": {`rules.yaml:2:74: schema: /maxItems must be integer, is "many"`},
	} {
		_, err := validation.Parse("rules.yaml", [][]byte{[]byte("checks:\n- schema: " + schema)})
		if diff := cmp.Diff(strings.Join(want, "\n"), fmt.Sprint(err)); diff != "" {
			t.Errorf("%s: -want +got:\n%s", schema, diff)
		}
	}
	_, err := validation.Parse("rules.yaml", [][]byte{[]byte("checks: [{schema: a.json}]"), []byte("{\"type\": \"object\",\n \"required\": \"x\"}")})
	if want := `rules.yaml: schema a.json:2:14: /required must be array, is "x"`; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// A rule that reads a member of self which its schema does not allow would refuse every write, or never apply.
func TestRulesReadMembersOfTheSchema(t *testing.T) {
	const closed = "additionalProperties: false, properties: {rps: true, name: true}, patternProperties: {^x-: true}"
	for _, c := range []struct{ schema, rule, want string }{
		{closed, "self.rsp < 5", `reads self.rsp, which the schema does not allow (did you mean "rps"?)`},
		{closed, "self.rsp", `reads self.rsp, which the schema does not allow (did you mean "rps"?)`},
		{closed, "!has(self.rsp) || self.rps < 5", `reads self.rsp, which the schema does not allow (did you mean "rps"?)`},
		{closed, "self[\"rsp\"] < 5", `reads self.rsp, which the schema does not allow (did you mean "rps"?)`},
		{closed, "[1].all(i, self.limit.rps > i)", `reads self.limit, which the schema does not allow (want name, rps)`},
		{"additionalProperties: false", "self.a < 5", `reads self.a, which the schema does not allow`},

		{closed, "self.rps < 5 && self.rps.rsp < 5 && self[\"x-a\"] == 1 && self[key] == 1", ""},
		{closed, "oldSelf == null || oldSelf.rsp < 5", ""}, // which may be older than the schema
		{closed, "[{\"rsp\": 1}].all(self, self.rsp < 5)", ""},
		{"properties: {rps: true}", "self.rsp < 5", ""},
		{"additionalProperties: {type: string}", "self.rsp < 5", ""},
		{"allOf: [{additionalProperties: false}]", "self.rsp < 5", ""},
	} {
		rule, _ := json.Marshal(c.rule)
		_, err := validation.Parse("rules.yaml", [][]byte{[]byte("checks:\n- schema: {" + c.schema + "}\n  rules:\n  - rule: " + string(rule) + "\n    message: m\n")})
		want := "rules.yaml:4:5: rule: " + c.want
		if c.want == "" {
			want = fmt.Sprint(nil)
		}
		if got := fmt.Sprint(err); got != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.rule, got, want)
		}
	}
}

// A file is refused before it takes more memory than a file of its size should.
func TestLargeFilesAreRefused(t *testing.T) {
	bomb := "{$defs: {a: &a {enum: [" + strings.Repeat("xxxx, ", 10_000) + "x]}}, allOf: [" + strings.Repeat("*a, ", 30) + "true]}"
	long := "checks: [" + strings.Repeat("{schema: true}, ", 1<<17) + "]"
	named := "checks: [{schema: s.yaml}]"
	for name, c := range map[string]struct {
		files []string
		want  string
	}{
		"aliases":                  {[]string{"checks: [{schema: " + bomb + "}]"}, "aliases are not allowed"},
		"aliases in a schema file": {[]string{named, bomb}, "aliases are not allowed"},
		"aliases of checks":        {[]string{"checks: [&a {schema: true}, *a]"}, "aliases are not allowed"},
		"many values":              {[]string{long}, "the limit is"},
		"many values, schema file": {[]string{named, long}, "the limit is"},
	} {
		t.Run(name, func(t *testing.T) {
			var contents [][]byte
			for _, text := range c.files {
				contents = append(contents, []byte(text))
			}
			var err error
			n := allocated(func() { _, err = validation.Parse("rules.yaml", contents) })
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %.200v, want %q", err, c.want)
			}
			if n > 100<<20 {
				t.Errorf("it took %d MB to refuse it", n>>20)
			}
		})
	}
}

func TestSchemaFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "rules.yaml")
	text := []byte("checks: [{schema: a.json}, {schema: sub/b.yaml}, {schema: a.json}, {schema: true}]")
	want := []string{filepath.Join(dir, "a.json"), filepath.Join(dir, "sub/b.yaml")}
	if diff := cmp.Diff(want, validation.SchemaFiles(path, text)); diff != "" {
		t.Error(diff)
	}
	set, err := validation.Parse(path, [][]byte{text, []byte(`{"type": "object"}`), []byte("required: [x]")})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := check(t, set, &validation.Write{New: document("{}")}), "/x is required, but missing"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	other, err := validation.Parse(path, [][]byte{text, []byte(`{"type": "array"}`), []byte("required: [x]")})
	if err != nil || set.Hash() == other.Hash() {
		t.Errorf("sets with different schemas have the same hash: %v", err)
	}
}

// allocated returns the bytes that a function allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Whatever a schema, a rule or a value is, a check takes bounded time and says so.
func TestHostileInput(t *testing.T) {
	var defs []string
	for i := range 40 {
		defs = append(defs, fmt.Sprintf(`d%d: {allOf: [{$ref: "#/$defs/d%d"}, {$ref: "#/$defs/d%d"}]}`, i, i+1, i+1))
	}
	doubling := `{$ref: "#/$defs/d0", $defs: {` + strings.Join(defs, ", ") + `, d40: {type: object}}}`
	var names strings.Builder
	for i := range 5000 {
		fmt.Fprintf(&names, "p%d, ", i)
	}
	deep := strings.Repeat(`{"a":`, 90) + "1" + strings.Repeat("}", 90)
	for name, c := range map[string]struct{ checks, value, want string }{
		"doubling schema":     {`schema: ` + doubling, `{}`, "takes too long"},
		"doubling with depth": {`schema: {anyOf: [{properties: {a: {$ref: "#"}}}, {properties: {a: {$ref: "#"}}}], properties: {a: {not: {$ref: "#"}}}}`, deep, "takes too long"},
		"embedded document":   {`schema: {$id: "https://example.com/a", $ref: "#/$defs/x", $defs: {x: {$id: b, type: object}}}`, `{}`, ""},
		"long enum":           {`schema: {items: {enum: [` + strings.Repeat(`[`+strings.Repeat("1,", 1000)+`1], `, 30) + `1]}}`, `[` + strings.Repeat(`[`+strings.Repeat("1,", 1000)+`0],`, 9) + `1]`, "takes too long"},
		"long lists of names": {`schema: {items: {dependentRequired: {a: [` + names.String() + `a]}}}`, `[` + strings.Repeat(`{"a": 1},`, 499) + `1]`, "takes too long"},
		"as dependencies":     {`schema: {$schema: "http://json-schema.org/draft-07/schema#", items: {dependencies: {a: [` + names.String() + `a]}}}`, `[` + strings.Repeat(`{"a": 1},`, 499) + `1]`, "takes too long"},
		"short enum":          {`schema: {items: {enum: [[1, 2], {a: 1}, 3, x]}}`, `[` + strings.Repeat(`[1, 2], {"a": 1}, 3, "x", `, 1000) + `3]`, ""},
		"cycle":               {`schema: {$ref: "#"}`, `{}`, "takes too long"},
		"slow pattern":        {`schema: {pattern: "(a?){500}(a?){400}b"}`, `"` + strings.Repeat("a", 100_000) + `"`, "takes too long"},
		"regex format":        {`schema: {format: regex}`, `"` + strings.Repeat("x{1000}", 10_000) + `"`, ""},
		"many unique items":   {`schema: {uniqueItems: true, items: {uniqueItems: true}}`, `[` + strings.Repeat(`[1],`, 90_000) + `[2]]`, "which is too many"},
		"huge bounds":         {`schema: {maximum: 1.5e300, minimum: -1e300, multipleOf: 1e-300}`, `1e299`, ""},
		"nested loops":        {`rules: [{rule: "self.all(a, self.all(b, self.all(c, a + b + c >= 0)))", message: m}]`, `[` + strings.Repeat("1,", 5000) + `1]`, "the rule"},
		"growing text":        {`rules: [{rule: "size([0,1,2,3,4,5,6,7,8,9].map(i, self + self + self + self)) == 1", message: m}]`, `"` + strings.Repeat("a", 500_000) + `"`, "m"},
		"not a boolean":       {`rules: [{rule: "self", message: m}]`, `1`, "m"},
		"missing member":      {`rules: [{rule: "self.x == 1", message: m}]`, `{}`, "no such key"},
	} {
		t.Run(name, func(t *testing.T) {
			set := parse(t, "checks:\n- "+c.checks)
			var got string
			n := allocated(func() { got = check(t, set, &validation.Write{New: document(c.value)}) })
			if n > 200<<20 {
				t.Errorf("the check allocates %d MB", n>>20)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %.300q, want %q", got, c.want)
			}
		})
	}
}

// A request has a limit of time and cost, which no schema or rule is exempt from.
func TestRequestsHaveLimits(t *testing.T) {
	const want = "takes too long to check"
	numbers := `{"a": [` + strings.Repeat("1,", 20_000) + "1]}"
	equal := "rule: '" + strings.Repeat("self.a == oldSelf.a && ", 40) + "true', message: m"
	for name, c := range map[string]struct{ checks, value, want string }{
		"comparisons in a rule":         {"rules: [{" + strings.ReplaceAll(equal, "true", strings.Repeat("self.a == oldSelf.a && ", 40)+"true") + "}]", numbers, "cost"},
		"comparisons with equal copies": {`rules: [{rule: "[1, 2, 3].map(i, self.a + self.a) == [1, 2, 3].map(i, self.a + self.a) && self.a in self.a.map(i, self.a)", message: m}]`, numbers, "cost"},
		"rules of a request":            {"rules: [" + strings.Repeat("{"+equal+"}, ", 20) + "{rule: 'true', message: m}]", numbers, want},
	} {
		t.Run(name, func(t *testing.T) {
			if testing.Short() {
				t.Skip("takes more than a second")
			}
			got := check(t, parse(t, "checks:\n- "+c.checks), &validation.Write{New: document(c.value), Old: document(c.value)})
			if !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
				t.Errorf("got %.300q, want %q", got, c.want)
			}
		})
	}
	ended, end := context.WithCancel(t.Context())
	end()
	for _, checks := range []string{"schema: true", "rules: [{rule: 'true', message: m}]"} {
		set := parse(t, "checks:\n- "+checks)
		b := validation.NewPatientBudget(1)
		b.Spend(ended, func() {
			found := set.For("a").Check(b, &validation.Write{Key: "a", New: document("1")})
			if len(found) != 1 || !strings.Contains(found[0].Message, want) {
				t.Errorf("%s: got %v after the end of the time, want %s", checks, found, want)
			}
		})
	}
}

// A rule can make a list of a few kilobytes that stands for 40^7 values, because its parts are shared. If one
// of these rules looked at all of them, this test would not end.
func TestSharedValuesAreNotWalked(t *testing.T) {
	const limit = "limit exceeded"
	const self = `["text"]`
	nested := func(step string, times int) string { return "[self]" + strings.Repeat(".map(a, "+step+")", times) }
	var entries strings.Builder
	for i := range 40 {
		fmt.Fprintf(&entries, "%d: a, ", i)
	}
	lists, members := nested("["+strings.Repeat("a, ", 39)+"a]", 7), nested("{"+entries.String()+"40: a}", 7)
	sums := nested(strings.Repeat("a + ", 39)+"a", 9)
	for name, c := range map[string]struct{ rule, want string }{
		"equal":             {lists + " == " + lists, limit},
		"not equal":         {"!(" + lists + " != " + lists + ")", limit},
		"in":                {"!(dyn(1) in " + lists + ")", limit},
		"in, not a literal": {"self in " + lists, limit},
		"maps":              {members + " == " + members, limit},
		"sums":              {"size(" + sums + ") == 1", limit},
		"equal sums":        {sums + " == " + sums, limit},
		"loop over sums":    {sums + ".all(a, a.all(b, b == 'text'))", limit},
		"length":            {"size(" + lists + ") == 1", ""},
		"different lengths": {lists + " != self + self", ""},
		"few":               {nested("[a, a]", 7) + " == " + nested("[a, a]", 7), ""},
		"few sums":          {nested("a + a", 9) + " == " + nested("a + a", 9) + " && size((self + self)) == 2 && (self + self)[1] == 'text'", ""},
		"other sums":        {"1 + 1 == 2 && 'a' + 'b' == 'ab' && 1.5 + 1.0 == 2.5 && duration('1s') + duration('1s') == duration('2s')", ""},
		"no sum":            {"dyn(1) + dyn('a') == 2", "no such overload"},
		"no list":           {"dyn(1) in dyn(2)", "no such overload"},
		"texts":             {strings.Repeat("size(self[0] + self[0]) < 10 && ", 100) + "true", ""},
	} {
		t.Run(name, func(t *testing.T) {
			text, _ := json.Marshal(c.rule)
			set := parse(t, fmt.Sprintf("checks: [{rules: [{rule: %s, message: m}]}]", text))
			var got string
			n := allocated(func() { got = check(t, set, &validation.Write{New: document(self)}) })
			if n > 100<<20 {
				t.Errorf("the check allocates %d MB", n>>20)
			}
			if c.want == "" && got != "" || !strings.Contains(got, c.want) {
				t.Errorf("got %.300q, want %q", got, c.want)
			}
		})
	}
}

// A loop over many items pays for each item once, although its result grows by one item each time.
func TestLoopsOverManyItems(t *testing.T) {
	set := parse(t, `checks: [{rules: [{rule: "size(self.map(a, a + 1).filter(a, a > 0)) == 10000", message: m}]}]`)
	if got := check(t, set, &validation.Write{New: document("[" + strings.Repeat("1,", 9_999) + "1]")}); got != "" {
		t.Error(got)
	}
}

// The steps of a request grow with its operations, and its refusal does not blame the value alone.
func TestTransactionsHaveMoreSteps(t *testing.T) {
	set := parse(t, `checks: [{schema: {pattern: "^a"}}]`)
	value := document(`"` + strings.Repeat("a", 80_000) + `"`) // 10,001 steps
	for _, c := range []struct{ operations, checked int }{{1, 9}, {3, 29}, {128, 49}} {
		b := validation.NewPatientBudget(c.operations)
		b.Spend(t.Context(), func() {
			n, found := 0, validation.Violations(nil)
			for ; n < 200 && len(found) == 0; n++ {
				found = set.For("a").Check(b, &validation.Write{Key: "a", New: value})
			}
			if n-1 != c.checked || len(found) == 0 || strings.Contains(found[0].Message, "transaction") != (c.operations > 1) {
				t.Errorf("of %d operations, %d were checked, then %v; want %d", c.operations, n-1, found, c.checked)
			}
		})
	}
}

// The check of one value cannot be interrupted, so it has the steps of one operation, also in a transaction. The
// other values of the transaction are checked all the same.
func TestOneValueHasTheStepsOfOneOperation(t *testing.T) {
	set := parse(t, `checks: [{schema: {items: {minimum: 0, maximum: 9, multipleOf: 1}}}]`)
	many := func(n int) *validation.Object { return document("[" + strings.Repeat("1,", n-1) + "1]") }
	b := validation.NewPatientBudget(128)
	b.Spend(t.Context(), func() {
		for n, want := range map[int]string{24_000: "", 26_000: "takes too long to check against its schema"} { // of 4 steps
			found := set.For("a").Check(b, &validation.Write{Key: "a", New: many(n)})
			if len(found) > 0 != (want != "") || want != "" && !strings.HasPrefix(found[0].Message, want) {
				t.Errorf("%d numbers: got %v, want %q", n, found, want)
			}
		}
	})
}

// The faults of a value are reported in the order of their places, whatever the order of its members is. A report
// that has not room for all of them has the first ones.
func TestFaultsAreInOrder(t *testing.T) {
	set := parse(t, `
checks:
  - schema:
      allOf: [{properties: {z: {type: integer}}}, {required: [e]}]
      additionalProperties: {type: string}
      propertyNames: {maxLength: 2}
      dependentRequired: {a: [f], b: [f]}
      patternProperties: {"^d": {minLength: 3}, "d$": {pattern: "^x"}}
      properties: {c: {items: {type: integer}}, z: true, long: true}
`)
	for value, want := range map[string]string{
		`{"z": "", "long": 1, "longer": "", "b": 1, "a": 1, "d": "o"}`: `has a, so it must have f as well
has b, so it must have f as well
has the member "long", whose name is not allowed
has the member "longer", whose name is not allowed
/a must be string, is 1
/b must be string, is 1
/d must have at least 3 characters, has 1
/d must match the pattern ^x, is "o"`,
		`{"e": "", "z": "", "h": 1, "c": [1, 2, "", 4, 5, 6, 7, 8, 9, 10, ""]}`: `/c/2 must be integer, is ""
/c/10 must be integer, is ""
/h must be string, is 1
/z must be integer, is ""`,
		`{"z": 1, "g": 1}`: `/e is required, but missing
/g must be string, is 1`,
	} {
		for range 20 {
			if diff := cmp.Diff(want, check(t, set, &validation.Write{New: document(value)})); diff != "" {
				t.Fatalf("%s: -want +got:\n%s", value, diff)
			}
		}
	}
}

// A name that is not allowed is reported for the object that has it.
func TestRefusedNamesHaveTheirPlace(t *testing.T) {
	set := parse(t, "checks: [{schema: {items: {additionalProperties: {propertyNames: {maxLength: 2}}}}}]")
	got := check(t, set, &validation.Write{New: document(`[{"a": {"long": 1}}, {"b": {"cd": 1}}, {"b": {"longer": 1}, "e": {}}, {"a": {}}]`)})
	want := `/0/a has the member "long", whose name is not allowed
/2/b has the member "longer", whose name is not allowed`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error("-want +got:\n", diff)
	}
}

// The cost of names is counted.
func TestManyNames(t *testing.T) {
	set := parse(t, `checks: [{schema: {propertyNames: {allOf: [{pattern: "(a?){500}b"}, {pattern: "(a?){400}b"}]}}}]`)
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `"%0100d": 1, `, i)
	}
	got := check(t, set, &validation.Write{New: document("{" + b.String() + `"a": 1}`)})
	if want := "takes too long to check against its schema"; !strings.HasPrefix(got, want) {
		t.Errorf("got %.300q, want %q", got, want)
	}
}

// The reports of a hostile value are bounded.
func TestReportsAreBounded(t *testing.T) {
	set := parse(t, "checks: [{schema: {additionalProperties: {type: string}}}]")
	var b strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&b, `%q: %d,`, strings.Repeat("long/", 1000)+fmt.Sprint(i), i)
	}
	got := check(t, set, &validation.Write{New: document("{" + strings.TrimSuffix(b.String(), ",") + "}")})
	if n := strings.Count(got, "\n") + 1; n != validation.MaxViolations || len(got) > 4000 {
		t.Errorf("got %d violations with %d bytes", n, len(got))
	}
}

// A report with more faults than it can have is not written first and cut then.
func TestLongReportsAreNotBuilt(t *testing.T) {
	var names, members strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&names, "property%d: true, ", i)
	}
	for i := range 20_000 {
		fmt.Fprintf(&members, `"q%d": 1,`, i)
	}
	set := parse(t, "checks: [{schema: {additionalProperties: false, properties: {"+names.String()+"}}}]")
	value := document("{" + strings.TrimSuffix(members.String(), ",") + "}")
	var got string
	if n := allocated(func() { got = check(t, set, &validation.Write{New: value}) }); n > 50<<20 {
		t.Errorf("the report allocates %d MB", n>>20)
	}
	if !strings.HasPrefix(got, "/q0 is not allowed here; allowed are property0, property1, property10, ") {
		t.Errorf("got %.300s", got)
	}
}

func FuzzCheck(f *testing.F) {
	f.Add(`{type: object, properties: {a: {$ref: "#"}}}`, "self.a == 1", `{"a": {"a": 1}}`)
	f.Add(`{anyOf: [{type: string}, {minimum: 1e400}], patternProperties: {"^a": {not: {}}}}`, "oldSelf.a > 1.5 && labels.size() > 0", `{"a": 1.5, "b": ["x"]}`)
	f.Add(`{unevaluatedProperties: false, allOf: [{$ref: "#/$defs/x"}], $defs: {x: {dependentSchemas: {a: {prefixItems: [true]}}}}}`, `key.contains("a") && [1].exists(x, x in self)`, `[1, 2]`)
	f.Fuzz(func(t *testing.T, schema, rule, value string) {
		text, err := json.Marshal(rule)
		if err != nil {
			return
		}
		set, err := validation.Parse("f", [][]byte{[]byte("checks: [{schema: s, rules: [{rule: " + string(text) + ", message: m}]}]"), []byte(schema)})
		if err != nil {
			return
		}
		b := validation.NewPatientBudget(1)
		n := allocated(func() {
			b.Spend(context.Background(), func() {
				found := set.For("a").Check(b, &validation.Write{Key: "a", New: document(value), Old: document(value)})
				if len(found) > validation.MaxViolations {
					t.Errorf("%d violations", len(found))
				}
			})
		})
		// A rule may make a few large texts before its cost ends it.
		if n > 500<<20 {
			t.Errorf("the check allocates %d MB", n>>20)
		}
	})
}

// A document is accepted if encoding/json accepts it, and no name is repeated.
func FuzzDocument(f *testing.F) {
	for _, text := range []string{`{"a": [1, -2.5e3, "\u00e9\ud800", true, null]}`, `01`, `"\x"`, "\"\xff\"", `[1,]`, `{"a":1,"a":2}`, ` 1 `, `-`, `1e9999`, "\"\\b\x8c\""} {
		f.Add(text)
	}
	set := parse(f, "checks: [{schema: true}]")
	f.Fuzz(func(t *testing.T, text string) {
		got := check(t, set, &validation.Write{New: document(text)})
		has := func(part string) bool { return strings.Contains(got, part) }
		isLimit := slices.ContainsFunc([]string{"is there more than once", "which is too many to check", "which is too deep to check", "is too large for a number", "has more digits than can be checked"}, has)
		// encoding/json accepts strings that are not UTF-8.
		isValid := json.Valid([]byte(text)) && utf8.ValidString(text)
		if isValid && got != "" && !isLimit || !isValid && !isLimit && !has("is not JSON: fault at byte") {
			t.Errorf("%q: got %q", text, got)
		}
	})
}

// benchmarked returns a schema with 30 properties and three rules, and a value of 4 KiB for them.
func benchmarked(t testing.TB) (*validation.Set, []byte) {
	t.Helper()
	properties, value := map[string]any{}, map[string]any{}
	for i := range 30 {
		name := fmt.Sprintf("property%02d", i)
		switch i % 3 {
		case 0:
			properties[name] = map[string]any{"type": "string", "minLength": 1, "maxLength": 1000}
			value[name] = strings.Repeat("text ", 70)
		case 1:
			properties[name] = map[string]any{"type": "integer", "minimum": 0, "maximum": 100_000}
			value[name] = i
		case 2:
			properties[name] = map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
			value[name] = []string{"a", "b", "c"}
		}
	}
	file, err := json.Marshal(map[string]any{"checks": []any{map[string]any{
		"schema": map[string]any{"type": "object", "properties": properties, "required": slices.Sorted(maps.Keys(properties)), "additionalProperties": false},
		"rules": []any{
			map[string]any{"rule": "self.property01 < self.property04", "message": "m"},
			map[string]any{"rule": "oldSelf == null || self.property00 == oldSelf.property00", "message": "m"},
			map[string]any{"rule": `self.property02.all(x, x != "d")`, "message": "m"},
		},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(file)), text
}

// BenchmarkCheck measures a value of 4 KiB, a schema with 30 properties and three rules. The goal is 100 µs.
func BenchmarkCheck(b *testing.B) {
	set, text := benchmarked(b)
	updated, old := document(string(text)), document(string(text))
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		w := &validation.Write{Key: "a", New: updated, Old: old}
		budget := validation.NewPatientBudget(1)
		budget.Spend(b.Context(), func() {
			if found := set.For(w.Key).Check(budget, w); len(found) > 0 {
				b.Fatal(found)
			}
		})
	}
}
