package version_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// `make build` makes programs that name their commit: in a clone, in a worktree, and for a user who
// has told Go not to look for commits.
func TestBuildsNameTheirCommit(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, program := range []string{"git", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	clone := filepath.Join(t.TempDir(), "clone")
	write(t, clone, "go.mod", "module github.com/fanoutd/fanoutd\n\ngo 1.26\n")
	for _, file := range []string{"Makefile", "internal/version/version.go"} {
		content, err := os.ReadFile(filepath.Join("..", "..", file))
		if err != nil {
			t.Fatal(err)
		}
		write(t, clone, file, string(content))
	}
	for _, program := range []string{"fanoutd", "fanoutctl", "fanouttest"} {
		write(t, clone, "cmd/"+program+"/main.go", `package main

import "github.com/fanoutd/fanoutd/internal/version"

func main() { println(version.Line("program")) }
`)
	}
	write(t, clone, ".gitignore", "/bin/\n")
	run(t, clone, "git", "init", "-q")
	run(t, clone, "git", "add", ".")
	run(t, clone, "git", "commit", "-q", "-m", "a commit")
	commit := strings.TrimSpace(run(t, clone, "git", "rev-parse", "HEAD"))
	worktree := filepath.Join(t.TempDir(), "worktree")
	run(t, clone, "git", "worktree", "add", "-q", worktree)
	line := func(dir, flags string) string {
		run(t, dir, "make", "build", "GOFLAGS="+flags)
		out := run(t, dir, "bin/fanoutctl")
		for _, program := range []string{"bin/fanoutd", "bin/fanouttest"} {
			if other := run(t, dir, program); other != out {
				t.Errorf("got %q from %s and %q from fanoutctl", other, program, out)
			}
		}
		return out
	}
	want := regexp.MustCompile(`^program v0\.0\.0-20251024080930-` + commit[:12] + `, commit ` + commit[:12] + ` of 2025-10-24T08:09:30Z, go1\.\S+ \w+/\w+\n$`)
	for _, dir := range []string{clone, worktree} {
		for _, flags := range []string{"", "-buildvcs=false"} {
			if got := line(dir, flags); !want.MatchString(got) {
				t.Errorf("in %s with GOFLAGS=%s: got %q, want %s", filepath.Base(dir), flags, got, want)
			}
		}
	}
	for _, dir := range []string{clone, worktree} {
		write(t, dir, "new.txt", "")
		if got := line(dir, ""); !strings.Contains(got, commit[:12]+"+dirty, commit "+commit[:12]) {
			t.Errorf("in %s with a change: got %q", filepath.Base(dir), got)
		}
	}
	// Without a repository, there is no commit.
	if err := os.RemoveAll(filepath.Join(clone, ".git")); err != nil {
		t.Fatal(err)
	}
	if got := line(clone, ""); !strings.HasPrefix(got, "program (devel), go1.") {
		t.Errorf("without a repository: got %q", got)
	}
}

func write(t *testing.T, dir, name, content string) {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// run runs a program and returns its output. Git uses no configuration of the user.
func run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), program, args...)
	if strings.Contains(program, "/") {
		cmd.Path = filepath.Join(dir, program)
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_CEILING_DIRECTORIES="+filepath.Dir(dir),
		"GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com", "GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com",
		"GIT_AUTHOR_DATE=2025-10-24T10:09:30+02:00", "GIT_COMMITTER_DATE=2025-10-24T10:09:30+02:00", "GOWORK=off", "MAKEFLAGS=", "MAKELEVEL=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", program, strings.Join(args, " "), err, out)
	}
	return string(out)
}
