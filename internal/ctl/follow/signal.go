package follow

import (
	"fmt"
	"os"
	"strconv"
	"strings"
)

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
