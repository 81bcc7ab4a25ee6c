package examples

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

const root = "../.."

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv("FANOUTD_TEST_EXAMPLES") == "" {
		fmt.Println("skipped: make test-examples runs these")
		return
	}
	goleak.VerifyTestMain(m)
}
