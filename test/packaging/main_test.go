package packaging

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/component-base/cli"
	"k8s.io/kubectl/pkg/cmd"
)

// root is the root of the repository.
const root = "../.."

// dir is where the server is built for the tests.
var dir string

func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "kubectl" {
		os.Exit(cli.Run(cmd.NewDefaultKubectlCommand()))
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// run runs a command in a folder and returns its standard output.
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

var build = sync.OnceValues(func() (path string, err error) {
	if dir, err = os.MkdirTemp("", "packaging-"); err != nil {
		return "", err
	}
	path = filepath.Join(dir, "fanoutd")
	// It is compiled like a release, so the go command compiles its packages only once for both.
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "./cmd/fanoutd")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build fanoutd: %w\n%s", err, out)
	}
	return path, nil
})

// fanoutd builds the server once, and returns its path.
func fanoutd(t *testing.T) string {
	t.Helper()
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// read returns the content of a file in the repository.
func read(t *testing.T, name string) []byte {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return content
}
