package follow

import (
	"fmt"
	"os"
	"strings"
)

// ParseSignal returns the signal with a name such as KILL or SIGKILL, the only one on Windows.
func ParseSignal(name string) (os.Signal, error) {
	if strings.TrimPrefix(strings.ToUpper(name), "SIG") == "KILL" {
		return os.Kill, nil
	}
	return nil, fmt.Errorf("cannot send signal %q: Windows has only KILL; run a command with --exec instead", name)
}
