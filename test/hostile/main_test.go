package hostile

import (
	"os"
	"testing"

	"github.com/fanoutd/fanoutd/test/fanoutdproc"
)

func TestMain(m *testing.M) {
	code := m.Run()
	fanoutdproc.Clean()
	os.Exit(code)
}
