package packaging

import (
	"debug/buildinfo"
	"debug/elf"
	"debug/macho"
	"debug/pe"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
)

// TestBinaries checks the programs for all platforms: the format of the executable file, its processor, the
// version and the commit, and the SBOM. Those for Linux are static.
func TestBinaries(t *testing.T) {
	dist := release(t, 0)
	commit := strings.TrimSpace(run(t, dist, nil, "git", "rev-parse", "HEAD"))
	for p := range strings.FieldsSeq(releases[0].platforms) {
		for _, binary := range programs(t, p) {
			name := strings.TrimSuffix(filepath.Base(binary), ".exe")
			if got := executableFor(t, binary); got != p {
				t.Errorf("%s of %s is for %s", name, p, got)
			}
			info, err := buildinfo.ReadFile(binary)
			if err != nil {
				t.Fatal(err)
			}
			settings := map[string]string{}
			for _, s := range info.Settings {
				settings[s.Key] = s.Value
			}
			if settings["vcs.revision"] != commit || settings["vcs.modified"] != "false" || info.Main.Version != "v"+version(t) {
				t.Errorf("%s of %s has version %s of commit %s", name, p, info.Main.Version, settings["vcs.revision"])
			}
			hasAllModules(t, info, name+" of "+p, released(t, name+"-"+p+".cdx.json"))
		}
	}
	for _, binary := range programs(t, platform) {
		if line := run(t, dist, nil, binary, "version"); !strings.Contains(line, "commit "+commit[:12]) {
			t.Errorf("commit %s: got version %s", commit, line)
		}
	}
}

// programs returns the paths of the programs for a platform. The server is not for Windows.
func programs(t *testing.T, platform string) []string {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(release(t, 0), platform, "*"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range paths {
		names = append(names, filepath.Base(path))
	}
	want := []string{"fanoutctl", "fanoutd", "fanouttest"}
	if strings.HasPrefix(platform, "windows-") {
		want = []string{"fanoutctl.exe", "fanouttest.exe"}
	}
	if !slices.Equal(names, want) {
		t.Fatalf("got programs %q for %s", names, platform)
	}
	return paths
}

// executableFor returns the platform that can run an executable file. On Linux, the file must be static.
func executableFor(t *testing.T, path string) string {
	t.Helper()
	if f, err := elf.Open(path); err == nil {
		defer f.Close()
		if slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC }) {
			t.Errorf("%s is not static", path)
		}
		return "linux-" + map[elf.Machine]string{elf.EM_X86_64: "amd64", elf.EM_AARCH64: "arm64"}[f.Machine]
	}
	if f, err := macho.Open(path); err == nil {
		defer f.Close()
		return "darwin-" + map[macho.Cpu]string{macho.CpuAmd64: "amd64", macho.CpuArm64: "arm64"}[f.Cpu]
	}
	f, err := pe.Open(path)
	if err != nil {
		t.Fatalf("%s is not executable on any platform: %v", path, err)
	}
	defer f.Close()
	return "windows-" + map[uint16]string{pe.IMAGE_FILE_MACHINE_AMD64: "amd64", pe.IMAGE_FILE_MACHINE_ARM64: "arm64"}[f.Machine]
}

// hasAllModules compares the SBOM of a program with its modules.
func hasAllModules(t *testing.T, info *debug.BuildInfo, program, sbom string) {
	t.Helper()
	text, err := os.ReadFile(sbom)
	if err != nil {
		t.Fatal(err)
	}
	var bom struct {
		Metadata struct {
			Component struct{ Version, PURL string }
			Tools     []struct{ Hashes []any }
		}
		Components []struct{ Name, Version string }
	}
	if err := json.Unmarshal(text, &bom); err != nil {
		t.Fatal(err)
	}
	_, platform, _ := strings.Cut(program, " of ")
	system, processor, _ := strings.Cut(platform, "-")
	c := bom.Metadata.Component
	if c.Version != info.Main.Version || !strings.Contains(c.PURL, "&goos="+system+"&goarch="+processor+"#") {
		t.Errorf("the SBOM of %s is that of version %s, %s", program, c.Version, c.PURL)
	}
	// These differ between machines, also for the same version.
	if len(bom.Metadata.Tools) != 1 || len(bom.Metadata.Tools[0].Hashes) > 0 {
		t.Errorf("the SBOM of %s has hashes of its tool", program)
	}
	listed := map[string]bool{}
	for _, c := range bom.Components {
		listed[c.Name+" "+c.Version] = true
	}
	for _, m := range info.Deps {
		if !listed[m.Path+" "+m.Version] {
			t.Errorf("%s has %s %s, which its SBOM lacks", program, m.Path, m.Version)
		}
	}
	if len(info.Deps) == 0 {
		t.Errorf("%s has no module information", program)
	}
}
