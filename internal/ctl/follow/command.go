// Package hook runs commands that people give for when something happens.
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

// Command is a command line for the shell. One runs at a time: Run returns when it
// has ended.
type Command struct {
	// Line is run by "sh -c".
	Line string
	// Environ is what it runs in, besides the variables of each call.
	Environ []string
	// Stdout and Stderr take what it writes.
	Stdout, Stderr io.Writer
}

// grace is how long a command may take to end after it was told to. It is then
// killed.
const grace = 5 * time.Second

// Run runs the command and waits for it. If ctx ends, the command and all that it has
// started are told to by a signal; they have five seconds. Otherwise it may leave
// somebody behind.
func (c *Command) Run(ctx context.Context, stdin io.Reader, variables ...string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", c.Line)
	cmd.Env = slices.Clone(c.Environ)
	for _, v := range variables {
		// No variable can have a NUL, and the object of who writes one must not stop
		// the watches of others.
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "\x00", ""))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, c.Stdout, c.Stderr
	var g group
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return g.terminate(cmd.Process) }
	cmd.WaitDelay = grace
	err := cmd.Run()
	g.wait()
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// A command may leave somebody behind who holds its output.
		if errors.Is(err, exec.ErrWaitDelay) {
			return nil
		}
		return fmt.Errorf("the command %q: %w", c.Line, err)
	}
	return nil
}

// Event runs the command for a change. The object is on its standard input, as a
// line of JSON; for a deletion it is the last one. Its variables:
//
//	FANOUT_EVENT     added, modified or deleted
//	FANOUT_RESOURCE  the name of the resource
//	FANOUT_KEY       the key of the object
//	FANOUT_REVISION  the revision of the change
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
		"FANOUT_REVISION="+strconv.FormatInt(e.Object.ModRevision, 10),
		"FANOUT_CONTENT_TYPE="+e.Object.ContentType)
}

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
