package packaging

import (
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestBinaries checks that binaries are static and report their commit, and that their SBOM is
// complete.
func TestBinaries(t *testing.T) {
	dist := release(t, 0)
	commit := strings.TrimSpace(run(t, root, nil, "git", "rev-parse", "HEAD"))
	for _, name := range []string{"fanoutd", "fanoutctl"} {
		binary := filepath.Join(dist, platform, name)
		if line := run(t, dist, nil, binary, "version"); !strings.Contains(line, "commit "+commit[:12]) {
			t.Errorf("commit %s: got version %s", commit, line)
		}
		file, err := elf.Open(binary)
		if err != nil {
			t.Fatal(err)
		}
		defer file.Close()
		if slices.ContainsFunc(file.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
			t.Errorf("%s is not static", name)
		}
		hasAllModules(t, binary, released(t, name+"-"+platform+".cdx.json"))
	}
}

// hasAllModules compares the SBOM of a binary with its modules.
func hasAllModules(t *testing.T, binary, sbom string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+" "+c.Version] = true
	}
	for _, m := range info.Deps {
		if !listed[m.Path+" "+m.Version] {
			t.Errorf("%s has %s %s, which its SBOM lacks", filepath.Base(binary), m.Path, m.Version)
		}
	}
	if len(info.Deps) == 0 {
		t.Errorf("%s has no module information", filepath.Base(binary))
	}
}
