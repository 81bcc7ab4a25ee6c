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
	goleak.VerifyTestMain(m)
}
