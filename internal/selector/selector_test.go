package selector_test

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

var declared = []string{"region", "tier"}

func parse(t *testing.T, ofLabels, ofFields string) selector.Selector {
	t.Helper()
	l, err := selector.ParseLabels(ofLabels)
	if err != nil {
		t.Fatal(err)
	}
	f, err := selector.ParseFields(ofFields, declared)
	if err != nil {
		t.Fatal(err)
	}
	return selector.And(l, f)
}

func TestMatches(t *testing.T) {
	o := object.New(object.Decoded{
		Key:    "team/app/limits",
		Labels: map[string]string{"env": "prod", "canary": ""},
		Fields: []string{"eu", ""},
	}, nil, 0)
	tests := []struct {
		labels, fields string
		want           bool
	}{
		{"", "", true},
		{"env=prod", "", true},
		{"env==prod", "", true},
		{"env=test", "", false},
		{"env!=test", "", true},
		{"env!=prod", "", false},
		{"absent!=x", "", true},
		{"absent=", "", false},
		{"canary=", "", true},
		{"env in (prod, test)", "", true},
		{"env in (test)", "", false},
		{"absent in (test)", "", false},
		{"env notin (test)", "", true},
		{"absent notin (test)", "", true},
		{"env notin (prod, test)", "", false},
		{"env", "", true},
		{"absent", "", false},
		{"!absent", "", true},
		{"!env", "", false},
		{"env=prod,!absent,canary", "", true},
		{"env=prod,absent", "", false},
		{"", "region=eu", true},
		{"", "region==us", false},
		{"", "region!=us", true},
		{"", "tier=", true},
		{"", "tier!=", false},
		{"", "key=team/app/limits", true},
		{"", "key=team/app", false},
		{"", "name=limits", true},
		{"", "name!=limits", false},
		{"", "region=eu,name=limits", true},
		{"env=prod", "region=us", false},
		{"env=test", "region=eu", false},
	}
	for _, tc := range tests {
		if got := parse(t, tc.labels, tc.fields).Matches(o); got != tc.want {
			t.Errorf("%q %q: got %v, want %v", tc.labels, tc.fields, got, tc.want)
		}
	}
	// An opaque object has no fields.
	if !parse(t, "", "region=").Matches(object.New(object.Decoded{Key: "k"}, nil, 0)) || parse(t, "", "region=eu").Matches(object.New(object.Decoded{Key: "k"}, nil, 0)) {
		t.Error("a missing field does not match like the empty value")
	}
}

// Selectors with the same meaning have the same canonical form, and no others do.
func TestCanonicalForm(t *testing.T) {
	for _, same := range [][][2]string{
		{{"", ""}, {" ", ""}},
		{{"a=1", ""}, {"a==1", ""}, {"a in (1)", ""}, {" a = 1 ", ""}, {"a=1,a=1", ""}, {"a==1,a=1", ""}},
		{{"a!=1", ""}, {"a notin (1)", ""}},
		{{"a in (1,2),b", ""}, {"b,a in (2,1)", ""}, {"b , a in ( 2,1,2 )", ""}},
		{{"", "region=eu,tier!=1"}, {"", "tier!=1,region==eu"}, {"", "region=eu,tier!=1,region=eu"}},
		{{"a", "region=x\\,y"}},
		{{"a", "region=x,tier=y"}},
		{{"", "region=a"}},
		{{"region=a", ""}},
	} {
		want := parse(t, same[0][0], same[0][1]).String()
		for _, s := range same {
			if got := parse(t, s[0], s[1]).String(); got != want {
				t.Errorf("%q has the form %q, %q has %q, want the same", same[0], want, s, got)
			}
		}
	}
	forms := map[string]bool{}
	for _, different := range [][2]string{
		{"", ""},
		{"a=1", ""},
		{"a!=1", ""},
		{"a", ""},
		{"!a", ""},
		{"a in (1,2)", ""},
		{"a notin (1,2)", ""},
		{"a=1,b", ""},
		{"", "region=a"},
		{"", "region!=a"},
		{"region=a", ""},
		{"", "region=a,tier=b"},
		{"", "region=a\\,tier\\=b"},
		{"", "region=a;b"},
	} {
		forms[parse(t, different[0], different[1]).String()] = true
	}
	if len(forms) != 14 {
		t.Errorf("got the forms %v of 14 different selectors, want 14 forms", forms)
	}
}

func TestInvalidSelectorsAreRefused(t *testing.T) {
	for _, text := range []string{"a=b=c", "a in b", "a in (b", ",", "=a", "a!", "!", "-a", "a=-", "a b", strings.Repeat("a,", selector.MaxBytes)} {
		if s, err := selector.ParseLabels(text); err == nil {
			t.Errorf("label selector %.20q is accepted as %.20q", text, s)
		}
	}
	for text, says := range map[string]string{
		"region":        "invalid",
		"region>1":      "invalid",
		"region=a\\":    "",
		"=a":            "",
		"zone=eu":       "key, name, region, tier",
		"region in (a)": "",
		"region=" + strings.Repeat("x", selector.MaxBytes): "limit",
	} {
		if s, err := selector.ParseFields(text, declared); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("field selector %.20q: got %.20q, %v, want an error with %q", text, s, err, says)
		}
	}
}

func TestNumberOfRequirementsIsLimited(t *testing.T) {
	ofLabels := func(n int) string { return strings.Repeat("a!=b,", n-1) + "a!=b" }
	ofFields := func(n int) string { return strings.Repeat("key!=a,", n-1) + "key!=a" }
	const most = selector.MaxRequirements
	if _, err := selector.ParseLabels(ofLabels(most)); err != nil {
		t.Error(err)
	}
	if _, err := selector.ParseFields(ofFields(most), declared); err != nil {
		t.Error(err)
	}
	if _, err := selector.ParseLabels(ofLabels(most + 1)); err == nil {
		t.Error("a label selector above the limit is accepted")
	}
	if _, err := selector.ParseFields(ofFields(most+1), declared); err == nil {
		t.Error("a field selector above the limit is accepted")
	}
}

func FuzzSelectors(f *testing.F) {
	f.Add("a in (1,2),!b", "region=eu,name!=x")
	f.Add("a==1", "key=a\\,b")
	f.Add("a", "key=\xff")
	o := object.New(object.Decoded{Key: "a/b", Labels: map[string]string{"a": "1"}, Fields: []string{"eu", "1"}}, nil, 0)
	f.Fuzz(func(t *testing.T, ofLabels, ofFields string) {
		l, err := selector.ParseLabels(ofLabels)
		if err != nil {
			return
		}
		fs, err := selector.ParseFields(ofFields, declared)
		if err != nil {
			return
		}
		if max(len(l.String()), len(fs.String())) > selector.MaxBytes {
			return // the canonical form can be longer than the limit
		}
		// The canonical form is a valid selector with the same meaning.
		again, err := selector.ParseLabels(l.String())
		if err != nil || again.String() != l.String() || again.Matches(o) != l.Matches(o) {
			t.Errorf("%q has the form %q, which has the form %q, %v", ofLabels, l, again, err)
		}
		fAgain, err := selector.ParseFields(fs.String(), declared)
		if err != nil || fAgain.String() != fs.String() || fAgain.Matches(o) != fs.Matches(o) {
			t.Errorf("%q has the form %q, which has the form %q, %v", ofFields, fs, fAgain, err)
		}
	})
}

func TestFieldNamesMayContainDots(t *testing.T) {
	s, err := selector.ParseFields("metadata.name=a,spec.zone!=b", []string{"spec.zone", "metadata.name"})
	if err != nil {
		t.Fatal(err)
	}
	if !s.Matches(object.New(object.Decoded{Key: "k", Fields: []string{"c", "a"}}, nil, 0)) || s.Matches(object.New(object.Decoded{Key: "k", Fields: []string{"b", "a"}}, nil, 0)) {
		t.Errorf("%v selects the wrong objects", s)
	}
}
