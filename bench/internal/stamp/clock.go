package stamp

import "golang.org/x/sys/unix"

// Now returns the machine's monotonic clock in nanoseconds. Unlike that of Go, it can
// be compared between processes.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // Linux has this clock
	}
	return t.Nano()
}
