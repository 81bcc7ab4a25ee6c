package stamp

import "golang.org/x/sys/unix"

// Now returns the monotonic clock of the machine in nanoseconds. Unlike Go's, it can be
// compared between processes.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // cannot happen on Linux
	}
	return t.Nano()
}
