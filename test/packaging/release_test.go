package packaging

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// built is a release of the newest commit for one platform, in a folder of its own. The tests
// share it.
type built struct {
	clone string
	once  sync.Once
}

// releases are two releases of the same commit, built in different folders.
var releases [2]built

const platform = "linux-amd64"

// release returns the folder dist/ of a release.
func release(t *testing.T, i int) string {
	t.Helper()
	fanoutd(t) // makes dir
	r := &releases[i]
	r.once.Do(func() {
		clone := filepath.Join(dir, strings.Repeat("a", i+1), "fanoutd")
		run(t, root, nil, "git", "clone", "--quiet", "--no-hardlinks", ".", clone)
		// Environment variables of the builder make no difference.
		run(t, clone, []string{"GOFLAGS=-tags=other", "TZ=Asia/Tokyo"}, "make", "dist", "PLATFORMS="+platform)
		r.clone = clone
	})
	if r.clone == "" {
		t.Fatal("the release could not be built")
	}
	return filepath.Join(r.clone, "dist")
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
	if out := run(t, ".", nil, "diff", "-r", "--brief", first, second); out != "" {
		t.Error(out)
	}
	sums := run(t, first, nil, "sha256sum", "--check", "SHA256SUMS")
	// An archive, two packages in two formats, and two bills of materials.
	if n := strings.Count(sums, ": OK\n"); n != 7 {
		t.Errorf("got %d files:\n%s", n, sums)
	}
}

// TestArchive checks what an archive contains.
func TestArchive(t *testing.T) {
	names := run(t, ".", nil, "tar", "-tzf", released(t, "*.tar.gz"))
	for _, name := range []string{
		"fanoutd", "fanoutctl", "README.md", "LICENSE", "CHANGELOG.md", "man/fanoutd.1.gz", "man/fanoutctl-watch.1.gz",
		"completions/fanoutctl.bash", "completions/fanoutctl.zsh", "completions/fanoutctl.fish", "completions/fanoutctl.ps1",
	} {
		if !strings.Contains(names, "-"+platform+"/"+name+"\n") {
			t.Errorf("the archive lacks %s", name)
		}
	}
}
