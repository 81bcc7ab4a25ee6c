package clients

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/test/etcdproc"
)

// programs is where the program under test is built.
var programs string

func TestMain(m *testing.M) {
	var err error
	if programs, err = os.MkdirTemp("", "fanoutd-clients-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(programs)
		etcdproc.Clean()
		os.Exit(code)
	}))
}
