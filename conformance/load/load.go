// Package load tells how busy the machine is.
package load

import (
	"fmt"
	"os"
	"runtime"
	"time"
)

// Scale returns how long a program may take for what takes a duration on an idle machine. It is longer while more
// processes want to run than there are processors. Only Linux tells how many.
func Scale(d time.Duration) time.Duration {
	content, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return d
	}
	var load [3]float64 // averages of 1, 5 and 15 minutes
	var runnable int
	if _, err := fmt.Sscanf(string(content), "%f %f %f %d/", &load[0], &load[1], &load[2], &runnable); err != nil {
		return d
	}
	busy := max(load[0], float64(runnable)) / float64(runtime.NumCPU())
	return time.Duration(float64(d) * max(1, 2*busy))
}
