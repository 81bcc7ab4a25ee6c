package follow

import (
	"fmt"
	"os"
	"strconv"
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

// SignalFile sends a signal to the process whose number is in a file. The file is
// read each time, because the process may have been started anew.
func SignalPIDFile(path string, s os.Signal) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("read the number of the process: %w", err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	// Zero and less would be groups of processes.
	if err != nil || pid < 1 {
		return fmt.Errorf("%s has no number of a process", path)
	}
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Signal(s)
	}
	if err != nil {
		return fmt.Errorf("signal process %d of %s: %w", pid, path, err)
	}
	return nil
}
