package document

import (
	"strings"
	"testing"
)

// Each operation of a transaction must be complete and free of contradictions.
func TestOperationsAreChecked(t *testing.T) {
	for text, want := range map[string]string{
		`put: x
text: y`: "",
		`put: x
text: ""
ifAbsent: true`: "",
		`delete: x
ifRevision: 1`: "",
		`check: x
ifAbsent: true`: "",
		`{}`:                                               "exactly one of put, delete and check",
		`{put: x, text: y, delete: y}`:                     "exactly one of put, delete and check",
		`put: x`:                                           `put "x" needs value, text or data`,
		`{put: x, text: a, value: 1}`:                      "more than one of value, text and data",
		`{put: x, text: y, ttl: 5}`:                        "line 1, column 24: ttl: must be a string, not 5; quote it",
		`{put: x, text: y, ttl: soon}`:                     `invalid ttl "soon"`,
		`{put: x, text: y, ttl: 0s}`:                       `invalid ttl "0s"`,
		`{put: x, text: y, ttl: 5s, keepTtl: true}`:        "both ttl and keepTtl",
		`{put: x, text: y, ifRevision: 0}`:                 "an ifRevision of at least 1, or ifAbsent",
		`{put: x, text: y, ifRevision: 7, ifAbsent: true}`: "an ifRevision of at least 1, or ifAbsent",
		`{delete: x, ifAbsent: true}`:                      `delete "x" cannot have ifAbsent`,
		`{delete: x, text: y}`:                             `delete "x" cannot have a value`,
		`{check: x, ifRevision: 7, labels: {a: b}}`:        `check "x" cannot have a value, labels`,
		`check: x`: `check "x" needs ifRevision or ifAbsent`,
	} {
		all, err := Operations("s", []byte(text), YAML)
		switch {
		case want == "" && (err != nil || len(all) != 1):
			t.Errorf("%s: got %v, %v", text, all, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}
