package packaging

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// root is the repository.
const root = "../.."

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// run runs a command in a folder and returns what it writes to standard output.
func run(t *testing.T, dir string, environ []string, name string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environ...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, &stderr)
	}
	return string(out)
}

// fanoutd builds the server and returns where it is.
func fanoutd(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "fanoutd")
	run(t, root, nil, "go", "build", "-o", path, "./cmd/fanoutd")
	return path
}

// read returns the content of a file of the repository.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
