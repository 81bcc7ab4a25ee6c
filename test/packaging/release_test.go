package packaging

import (
	"debug/buildinfo"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// built is a release of the newest commit, in a folder of its own. The tests share it.
type built struct {
	platforms string
	clone     string
	once      sync.Once
}

// platform is that of the machine that runs the tests.
const platform = "linux-amd64"

// releases are two releases of the same commit, built in different folders. The first one is for all
// platforms, though the programs of the others cannot run here.
var releases = [2]built{{platforms: platform + " linux-arm64 darwin-amd64 darwin-arm64 windows-amd64 windows-arm64"}, {platforms: platform}}

// release returns the folder dist/ of a release.
func release(t *testing.T, i int) string {
	t.Helper()
	fanoutd(t) // makes dir
	r := &releases[i]
	r.once.Do(func() {
		clone := filepath.Join(dir, strings.Repeat("a", i+1), "fanoutd")
		run(t, root, nil, "git", "clone", "--quiet", "--no-hardlinks", ".", clone)
		// Environment variables of the builder make no difference.
		run(t, clone, []string{"GOFLAGS=-tags=other", "TZ=Asia/Tokyo"}, "make", "dist", "PLATFORMS="+r.platforms)
		r.clone = clone
	})
	if r.clone == "" {
		t.Fatal("the release could not be built")
	}
	return filepath.Join(r.clone, "dist")
}

// version returns the version of the release, without its v.
func version(t *testing.T) string {
	t.Helper()
	info, err := buildinfo.ReadFile(filepath.Join(release(t, 0), platform, "fanoutctl"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// released returns the only file of the release whose name matches.
func released(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(release(t, 0), "release", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: got files %q, %v", pattern, found, err)
	}
	return found[0]
}

// TestReleaseIsReproducible checks that two releases of one commit are equal, to the byte.
func TestReleaseIsReproducible(t *testing.T) {
	first, second := filepath.Join(release(t, 0), "release"), filepath.Join(release(t, 1), "release")
	// An archive, three packages in two formats, and three bills of materials; the chart.
	names := checksums(t, second)
	if len(names) != 11 {
		t.Errorf("got files %q", names)
	}
	for _, name := range names {
		run(t, ".", nil, "cmp", filepath.Join(first, name), filepath.Join(second, name))
	}
	// The first release also has ten files for linux-arm64, and for each architecture four for macOS
	// and three for Windows.
	if names := checksums(t, first); len(names) != 11+10+2*(4+3) {
		t.Errorf("got files %q", names)
	}
}

// checksums returns the names in the file SHA256SUMS of a release. It has a right line for every other file.
func checksums(t *testing.T, folder string) (names []string) {
	t.Helper()
	for line := range strings.Lines(run(t, folder, nil, "sha256sum", "--check", "--strict", "SHA256SUMS")) {
		names = append(names, strings.TrimSuffix(line, ": OK\n"))
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "SHA256SUMS" && !slices.Contains(names, e.Name()) {
			t.Errorf("SHA256SUMS lacks %s", e.Name())
		}
	}
	return names
}
