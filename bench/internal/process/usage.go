package process

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Usage is the resource usage of a process, as the kernel counts it.
type Usage struct {
	CPU    time.Duration // in user and kernel mode, since its start
	Writes int64         // write system calls since its start
	Bytes  int64         // written by them
	RSS    int64         // resident memory in bytes
	Anon   int64         // the anonymous part of RSS
	Peak   int64         // the maximum of RSS since ResetPeak
}

// Usage returns the counters.
func (p *Process) Usage() (Usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid))
	var u Usage
	var err error
	if u.CPU, err = cpu(p.cmd.Process.Pid); err != nil {
		return u, fmt.Errorf("read the CPU time of %s: %w", p.Name, err)
	}
	memory, err := fields(filepath.Join(dir, "status"))
	if err != nil {
		return u, fmt.Errorf("read the memory of %s: %w", p.Name, err)
	}
	u.RSS, u.Anon = memory["VmRSS"]<<10, memory["RssAnon"]<<10
	u.Peak = memory["VmHWM"] << 10
	calls, err := fields(filepath.Join(dir, "io"))
	if err != nil {
		return u, fmt.Errorf("read the writes of %s: %w", p.Name, err)
	}
	u.Writes, u.Bytes = calls["syscw"], calls["wchar"]
	return u, nil
}

// Self returns the CPU time of this process in microseconds, and its largest memory in bytes.
func Self() (cpu, peak int64) {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0, 0
	}
	return (u.Utime.Nano() + u.Stime.Nano()) / 1000, u.Maxrss << 10
}

// ResetPeak resets Usage.Peak.
func (p *Process) ResetPeak() error {
	path := filepath.Join("/proc", strconv.Itoa(p.cmd.Process.Pid), "clear_refs")
	if err := os.WriteFile(path, []byte("5"), 0); err != nil {
		return fmt.Errorf("reset the peak memory of %s: %w", p.Name, err)
	}
	return nil
}

// cpu returns the CPU time of a process and all its threads. The clock of the process is
// exact; /proc/PID/stat has steps of 10 ms.
func cpu(pid int) (time.Duration, error) {
	var t unix.Timespec
	if err := unix.ClockGettime(cpuClock(pid), &t); err != nil {
		return 0, err
	}
	return time.Duration(t.Nano()), nil
}

// cpuClock returns the CPU clock of a process, as clock_getcpuclockid(3) does.
func cpuClock(pid int) int32 {
	const scheduler = 2 // time that the scheduler has counted, in user and kernel mode
	return ^int32(pid)<<3 | scheduler
}

// fields reads lines such as "name: 12" or "name: 12 kB".
func fields(path string) (map[string]int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	found := map[string]int64{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		value, _, _ = strings.Cut(strings.TrimSpace(value), " ")
		if n, err := strconv.ParseInt(value, 10, 64); err == nil {
			found[name] = n
		}
	}
	return found, lines.Err()
}
