package document_test

import (
	"fmt"
	"strings"
	"testing"
	"text/template"

	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Numbers survive a template: printed, and encoded again.
func TestNumbersSurviveTemplates(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "-1": "-1", "1000000": "1000000", "1e6": "1000000", "1.0": "1", "1.5": "1.5", "1234567.5": "1234567.5",
		"9007199254740991": "9007199254740991", "9007199254740992": "9007199254740992", "9007199254740993": "9007199254740993",
		"-9007199254740993": "-9007199254740993", "9223372036854775807": "9223372036854775807", "9223372036854775808": "9223372036854775808",
		"18446744073709551615": "18446744073709551615", "18446744073709551616": "18446744073709551616",
		"-9223372036854775809": "-9223372036854775809", "123456789012345678901234567890": "123456789012345678901234567890",
		"1e400": "1e400", "-1.5e400": "-1.5e400", "1e21": "1e+21", "0.1": "0.1", "1e-7": "1e-7",
		strings.Repeat("9", 400): strings.Repeat("9", 400),
	} {
		value, err := document.Parse([]byte(`{"n": [` + number + `]}`))
		if err != nil {
			t.Errorf("%s: %v", number, err)
			continue
		}
		if got := render(t, `{{index .n 0}}`, value); got != want {
			t.Errorf("%s: a template prints %s, want %s", number, got, want)
		}
		text, err := document.EncodeJSON(value, false)
		if want := fmt.Sprintf("{\"n\":[%s]}\n", want); err != nil || string(text) != want {
			t.Errorf("%s: encoded again, it is %s, %v, want %s", number, text, err, want)
		}
	}
	for _, text := range []string{"", "{", "1 2", "{} x", "01"} {
		if v, err := document.Parse([]byte(text)); err == nil {
			t.Errorf("%q: got %v, want an error", text, v)
		}
	}
}

// Templates compare numbers and format them.
func TestTemplatesCompareNumbers(t *testing.T) {
	value, err := document.Parse([]byte(`{"small": 5, "big": 9007199254740993, "bigger": 18446744073709551615, "half": 0.5, "whole": 1e3}`))
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		`{{gt .small 4}} {{eq .small 5}} {{lt .small .big}} {{lt .big .bigger}}`: "true true true true",
		`{{eq .big 9007199254740993}} {{eq .big 9007199254740992}}`:              "true false",
		`{{lt .half 0.75}} {{eq .half 0.5}} {{eq .whole 1000}}`:                  "true true true",
		`{{printf "%03d %.2f %d" .small .half .bigger}}`:                         "005 0.50 18446744073709551615",
	} {
		if got := render(t, text, value); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
}

func render(t *testing.T, text string, data any) string {
	t.Helper()
	parsed, err := template.New("").Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := parsed.Execute(&out, data); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
