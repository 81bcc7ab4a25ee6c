package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Command is a shell command.
type Command struct {
	// Line is run by "sh -c".
	Line string
	// Environ is the environment, besides the variables of each run.
	Environ []string
	// Stdout and Stderr receive the output.
	Stdout, Stderr io.Writer
}

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 5 * time.Second

// Run runs the command and waits for it. If ctx ends, the command and all processes that it
// started get SIGTERM, and SIGKILL after killDelay. Otherwise processes that the command
// leaves in the background keep running.
func (c *Command) Run(ctx context.Context, stdin io.Reader, variables ...string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Line)
	cmd.Env = slices.Clone(c.Environ)
	for _, v := range variables {
		// A NUL would make exec fail, so the author of an object could stop the watches
		// of other users.
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "\x00", ""))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, c.Stdout, c.Stderr
	var g processGroup
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return g.terminate(cmd.Process) }
	cmd.WaitDelay = killDelay
	err := cmd.Run()
	g.wait()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A background process still holds the output.
		if errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		return fmt.Errorf("command %q: %w", c.Line, err)
	}
	return nil
}

// Event runs the command for a change. Its standard input is the object as one line of JSON;
// for a deletion, the last content. The variables are:
//
//	FANOUT_EVENT         added, modified or deleted
//	FANOUT_RESOURCE      the name of the resource
//	FANOUT_KEY           the key of the object
//	FANOUT_REVISION      the revision of the change
//	FANOUT_CONTENT_TYPE  the media type of the value
func (c *Command) Event(ctx context.Context, resource string, e client.Event) error {
	d := document.Of(e.Object)
	text, err := d.JSON(false)
	if err != nil {
		return err
	}
	return c.Run(ctx, strings.NewReader(string(text)),
		"FANOUT_EVENT="+strings.ToLower(e.Type.String()),
		"FANOUT_RESOURCE="+resource,
		"FANOUT_KEY="+e.Object.Key,
		"FANOUT_REVISION="+strconv.FormatInt(e.Revision, 10),
		"FANOUT_CONTENT_TYPE="+e.Object.ContentType)
}

// processGroup is the shell of a command and the processes that it started. The shell waits
// for them but does not forward signals, so a signal must go to the whole group. The zero
// value is a group that was not terminated.
type processGroup struct {
	id       int
	deadline time.Time // when to send SIGKILL
}

// terminate sends SIGTERM to the group that p leads.
func (g *processGroup) terminate(p *os.Process) error {
	g.id, g.deadline = p.Pid, time.Now().Add(killDelay)
	err := unix.Kill(-g.id, unix.SIGTERM)
	if errors.Is(err, unix.ESRCH) {
		return os.ErrProcessDone
	}
	return err
}

// wait waits until a terminated group has no processes, and sends SIGKILL at the deadline.
// It polls, because the remaining processes are not our children.
func (g *processGroup) wait() {
	if g.id == 0 {
		return
	}
	poll := time.NewTicker(10 * time.Millisecond)
	defer poll.Stop()
	for unix.Kill(-g.id, 0) == nil {
		if !time.Now().Before(g.deadline) {
			_ = unix.Kill(-g.id, unix.SIGKILL) // fails if they have just ended
			return
		}
		// As process 1 of a container, this process inherits and must reap them.
		_, _ = unix.Wait4(-g.id, nil, unix.WNOHANG, nil)
		<-poll.C
	}
}
