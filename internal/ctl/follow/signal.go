package follow

import (
	"fmt"
	"os"
	"strconv"
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

// SignalPIDFile sends a signal to the process whose ID is in the file. It reads the file each
// time, because the process may have been restarted.
func SignalPIDFile(path string, s os.Signal) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read process ID: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	// 0 and negative numbers would signal process groups.
	if err != nil || pid < 1 {
		return fmt.Errorf("%s does not contain a process ID", path)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(s)
	}
	if err != nil {
		return fmt.Errorf("cannot signal process %d from %s: %w", pid, path, err)
	}
	return nil
}
