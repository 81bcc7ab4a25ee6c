package client_test

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// A program that imports the client links neither etcd nor the server. docs/clients/go.md has
// the number of packages that it links.
func TestTheClientHasFewDependencies(t *testing.T) {
	t.Parallel()
	const ours = "github.com/fanoutd/fanoutd"
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}} {{.Module.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatal(err)
	}
	packages, modules := 0, map[string]bool{}
	for line := range strings.Lines(string(out)) {
		path, module, _ := strings.Cut(strings.TrimSpace(line), " ")
		packages, modules[module] = packages+1, true
		if strings.HasPrefix(path, "go.etcd.io/") || strings.HasPrefix(path, ours+"/internal/") {
			t.Errorf("the client depends on %s", path)
		}
	}
	doc, err := os.ReadFile("../docs/clients/go.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `go list -deps ./client` \\| ([0-9]+) \\| ([0-9]+) \\|$").FindSubmatch(doc)
	if row == nil {
		t.Fatal("docs/clients/go.md has no row with the number of packages")
	}
	others := len(modules) - 1
	if string(row[1]) != strconv.Itoa(packages) || string(row[2]) != strconv.Itoa(others) {
		t.Errorf("docs/clients/go.md says %s packages of %s other modules, want %d of %d", row[1], row[2], packages, others)
	}
}
