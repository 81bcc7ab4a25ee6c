package hook

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// ParseSignal returns the signal of a name such as HUP or SIGHUP.
func ParseSignal(name string) (os.Signal, error) {
	full := strings.ToUpper(name)
	if !strings.HasPrefix(full, "SIG") {
		full = "SIG" + full
	}
	if s := unix.SignalNum(full); s != 0 {
		return s, nil
	}
	return nil, fmt.Errorf("there is no signal %q; common ones are HUP, USR1, USR2 and TERM", name)
}
