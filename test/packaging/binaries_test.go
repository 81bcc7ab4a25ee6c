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

// TestBinaries checks that builds of a commit are reproducible in any folder, that binaries
// are static and report their commit, and that their SBOM is complete.
func TestBinaries(t *testing.T) {
	const platform = "linux-amd64"
	var sums [2]string
	var dist string
	for i := range sums {
		clone := filepath.Join(t.TempDir(), strings.Repeat("a", i+1), "fanoutd")
		// The newest commit is built.
		run(t, root, nil, "git", "clone", "--quiet", "--no-hardlinks", ".", clone)
		// Environment variables of the builder make no difference.
		run(t, clone, []string{"GOFLAGS=-tags=other"}, "make", "binaries", "PLATFORMS="+platform)
		dist = filepath.Join(clone, "dist")
		sums[i] = run(t, dist, nil, "sha256sum", platform+"/fanoutd", platform+"/fanoutctl")
		if i == len(sums)-1 {
			run(t, clone, nil, "make", "dist", "PLATFORMS="+platform)
			run(t, dist, nil, "sha256sum", "--check", "SHA256SUMS")
		}
	}
	if sums[0] != sums[1] {
		t.Errorf("two builds differ:\n%s%s", sums[0], sums[1])
	}
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
		hasAllModules(t, binary)
	}
}

// hasAllModules compares the SBOM of a binary with its modules.
func hasAllModules(t *testing.T, binary string) {
	t.Helper()
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(binary + ".cdx.json")
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
