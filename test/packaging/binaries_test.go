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

// Whoever builds a commit gets the same bytes, in whatever folder. They need nothing of
// the system, know what they are, and what they are made of is told in full.
func TestBinaries(t *testing.T) {
	const platform = "linux-amd64"
	var sums [2]string
	var dist string
	for i := range sums {
		clone := filepath.Join(t.TempDir(), strings.Repeat("a", i+1), "fanoutd")
		// What is built is the newest commit.
		run(t, root, nil, "git", "clone", "--quiet", "--no-hardlinks", ".", clone)
		// A variable of whoever builds makes no difference.
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
			t.Errorf("commit %s calls itself %s", commit, line)
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

// hasAllModules compares the SBOM of a binary with what is in it.
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
			t.Errorf("%s has %s %s, its SBOM does not", filepath.Base(binary), m.Path, m.Version)
		}
	}
	if len(info.Deps) == 0 {
		t.Errorf("%s says nothing about its modules", filepath.Base(binary))
	}
}
