package browser

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("FANOUTD_TEST_BROWSER") == "" {
		fmt.Println("skipped: make test-browser runs these")
		return
	}
	// A browser that is ended leaves its sockets in the folder for temporary files.
	temporary, err := os.MkdirTemp("", "browser")
	if err != nil {
		panic(err)
	}
	os.Setenv("TMPDIR", temporary)
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(temporary)
		os.Exit(code)
	}))
}
