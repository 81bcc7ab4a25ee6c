package rules

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

func TestContributingNamesRealTargetsAndFolders(t *testing.T) {
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	if err != nil {
		t.Fatal(err)
	}
	targets := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+):`).FindAllSubmatch(makefile, -1) {
		targets[string(m[1])] = true
	}
	text, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`make ([a-z-]+)").FindAllSubmatch(text, -1)
	if len(named) < 10 {
		t.Errorf("got %d make targets, want at least 10", len(named))
	}
	for _, m := range named {
		if !targets[string(m[1])] {
			t.Errorf("CONTRIBUTING.md names make %s, which does not exist", m[1])
		}
	}
	paths := regexp.MustCompile("`(?:P=)?((?:\\./)?(?:bench|client|cmd|docs|internal|proto|test|tools)(?:/[a-z.]+)*/?)`").FindAllSubmatch(text, -1)
	if len(paths) < 15 {
		t.Errorf("got %d paths, want at least 15", len(paths))
	}
	for _, m := range paths {
		if _, err := os.Stat(filepath.Join(root, string(m[1]))); err != nil {
			t.Errorf("CONTRIBUTING.md names %s: %v", m[1], err)
		}
	}
}
