//go:build unix

package follow

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ParseSignal returns the signal with a name such as HUP or SIGHUP.
func ParseSignal(name string) (os.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if s := unix.SignalNum(full); s != 0 {
		return s, nil
	}
	return nil, fmt.Errorf("unknown signal %q (want HUP, USR1, USR2, TERM, …)", name)
}
