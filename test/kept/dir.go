// Package kept provides directories for files that explain a failed test.
package kept

import (
	"flag"
	"os"
	"strings"
	"testing"
)

// Dir returns a directory that is kept if the test fails, also without -artifacts.
func Dir(t *testing.T) string {
	t.Helper()
	if f := flag.Lookup("test.artifacts"); f != nil && f.Value.String() == "true" {
		return t.ArtifactDir()
	}
	dir, err := os.MkdirTemp("", "fanoutd-"+strings.ReplaceAll(t.Name(), "/", "-")+"-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the files of the test are in %s", dir)
			return
		}
		os.RemoveAll(dir)
	})
	return dir
}
