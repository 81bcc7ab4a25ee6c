package failures

import (
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/logs"
	"github.com/fanoutd/fanoutd/test/poll"
)

// slowDisk makes a server wait so much longer for each flush of a file, until end is called.
func slowDisk(t *testing.T, s *instance, delay time.Duration) (end func()) {
	t.Helper()
	var log logs.Buffer
	cmd := exec.Command("strace", "--follow-forks", "--trace=fdatasync,fsync",
		fmt.Sprintf("--inject=fdatasync,fsync:delay_exit=%d", delay.Microseconds()),
		"--output=/dev/null", "--attach", strconv.FormatInt(s.pid.Load(), 10))
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it ends with the signal that it got
		close(ended)
	}()
	stop := sync.OnceFunc(func() {
		select {
		case <-ended:
			t.Errorf("strace has ended: %s", log.String())
			return
		default:
		}
		_ = cmd.Process.Signal(syscall.SIGINT) // it may be ending
		<-ended
	})
	t.Cleanup(stop)
	return stop
}

// TestSlowDiskOfOneServerOfACluster slows the disk of a follower and of the leader down. Writes go on through all
// servers. A leader that flushes its files more slowly than an election takes is replaced. It runs if
// FANOUTD_TEST_SLOW_DISK is set.
func TestSlowDiskOfOneServerOfACluster(t *testing.T) {
	if os.Getenv("FANOUTD_TEST_SLOW_DISK") == "" {
		t.Skip("needs strace: see make test-faults")
	}
	t.Parallel()
	n := startNetwork(t, 3, "")
	l := startLoad(t, n)
	all := []int{0, 1, 2}
	l.goesOn(t, 10, all...)
	for _, c := range []struct {
		leads bool
		delay time.Duration
	}{{false, 300 * time.Millisecond}, {true, 300 * time.Millisecond}, {true, 3 * time.Second}} {
		leader := leadingServer(t, n.etcds)
		slow := leader
		if !c.leads {
			slow = (leader + 1) % 3
		}
		others := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return i == slow })
		l.begin()
		end := slowDisk(t, n.servers[slow], c.delay)
		if c.delay > time.Second {
			poll.Until(t, "another server leads", func() bool { return leadingServer(t, n.etcds) != slow })
		}
		l.goesOn(t, 50, others...)
		paused := l.longest(others...)
		end()
		l.begin()
		l.goesOn(t, 10, all...)
		t.Logf("leader: %t, %v slower: the longest pause of the writers at the others was %v", c.leads, c.delay, paused.Round(time.Millisecond))
	}
	l.validate(t)
}
