package hook

import (
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// group is the processes of a command: the shell, and what it has started. The shell
// waits for those and does not pass signals on, so that a signal for it alone would
// leave them behind. The zero value is a group that nobody has told to end.
type group struct {
	id       int
	deadline time.Time // when the grace is over
}

// terminate tells the group that p leads to end.
func (g *group) terminate(p *os.Process) error {
	g.id, g.deadline = p.Pid, time.Now().Add(grace)
	err := unix.Kill(-g.id, unix.SIGTERM)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// wait returns when nobody is left of a group that was told to end; those who take
// too long are killed. Nothing but asking says whether somebody is left: they are
// children of the shell, which has ended.
func (g *group) wait() {
	if g.id == 0 {
		return
	}
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for unix.Kill(-g.id, 0) == nil {
		if !time.Now().Before(g.deadline) {
			_ = unix.Kill(-g.id, unix.SIGKILL) // they may have ended just now
			return
		}
		// As the first process of a container this one inherits them.
		_, _ = unix.Wait4(-g.id, nil, unix.WNOHANG, nil)
		<-again.C
	}
}
