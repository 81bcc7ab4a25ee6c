package hook

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

// SignalFile sends a signal to the process whose number is in a file. The file is
// read each time, because the process may have been started anew.
func SignalFile(path string, s os.Signal) error {
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
