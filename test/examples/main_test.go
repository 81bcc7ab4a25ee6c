package examples

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

const root = "../.."

// fanoutd is the program under test.
var fanoutd string

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("FANOUTD_TEST_EXAMPLES") == "" {
		fmt.Println("skipped: make test-examples runs these")
		return
	}
	programs, err := os.MkdirTemp("", "fanoutd-examples-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fanoutd = filepath.Join(programs, "fanoutd")
	build := exec.Command("go", "build", "-o", fanoutd, "./cmd/fanoutd")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build fanoutd: %v\n%s", err, out)
		os.RemoveAll(programs)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs)
		os.Exit(code)
	}))
}
