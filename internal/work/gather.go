package work

import (
	"runtime"
	"time"
)

const (
	// gatherPasses is how often Gather lets other goroutines run. A request needs several goroutines, one
	// after the other, before its handler waits for the result. Groups grew up to the fourth pass.
	gatherPasses = 4

	// gatherTime ends Gather after a longer pass: then the processors are so busy that enough has come.
	gatherTime = time.Millisecond
)

// Gather lets the goroutines that wait for a processor run, before the caller does something once for
// all that need it. On an idle processor it returns at once.
func Gather() {
	began := time.Now()
	for range gatherPasses {
		runtime.Gosched()
		if time.Since(began) > gatherTime {
			return
		}
	}
}
