package hostile

import (
	"fmt"
	"os"
	"testing"

	"github.com/fanoutd/fanoutd/test/fanoutdproc"
)

func TestMain(m *testing.M) {
	if as := os.Getenv(attackVariable); as != "" {
		if err := attackers(as); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	code := m.Run()
	fanoutdproc.Clean()
	os.Exit(code)
}
