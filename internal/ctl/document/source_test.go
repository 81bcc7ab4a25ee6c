package document

import (
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestFileName(t *testing.T) {
	for key, want := range map[string]string{
		"shop/limits":       "shop/limits.yaml",
		"a":                 "a.yaml",
		"a.yaml/b":          "a%2Eyaml/b.yaml",
		".hidden":           "%2Ehidden.yaml",
		"../../etc/passwd":  "%2E./%2E./etc/passwd.yaml",
		"/a//b/":            "%/a/%/b/%.yaml",
		"100%":              "100%25.yaml",
		`C:\x`:              "C%3A%5Cx.yaml",
		"ein/schöner/name":  "ein/schöner/name.yaml",
		"new\nline/\x00nul": "new%0Aline/%00nul.yaml",
	} {
		if got := FileName(key); got != want {
			t.Errorf("FileName(%q) = %q, want %q", key, got, want)
		}
	}
}

// keys generates similar keys and long keys.
func keys() *rapid.Generator[string] {
	part := rapid.OneOf(
		rapid.SampledFrom([]string{"a", "A", ".", "..", "", "%", "%2E", ".yaml", "a.yaml", "a%2Eyaml", strings.Repeat("x", 250), strings.Repeat("x", 251), strings.Repeat("%", 100)}),
		rapid.String(),
	)
	return rapid.Map(rapid.SliceOfN(part, 1, 4), func(s []string) string { return strings.Join(s, "/") })
}

func TestFileNamesDoNotCollide(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := keys().Draw(t, "a"), keys().Draw(t, "b")
		file, other := FileName(a), FileName(b)
		if !filepath.IsLocal(file) {
			t.Fatalf("%q leaves the directory", file)
		}
		for name := range strings.SplitSeq(file, "/") {
			if len(name) > 255 || strings.HasPrefix(name, ".") || name == "" {
				t.Fatalf("%q is not a valid file name", name)
			}
		}
		if a != b && (file == other || strings.HasPrefix(other, file+"/")) {
			t.Fatalf("the file %q collides with %q", file, other)
		}
	})
}
