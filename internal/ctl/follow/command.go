package follow

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Command is a shell command.
type Command struct {
	// Line is run by "sh -c", and on Windows by "cmd /c".
	Line string
	// Environ is the environment, besides the variables of each run.
	Environ []string
	// Stdout and Stderr receive the output.
	Stdout, Stderr io.Writer
}

// killDelay is the time between SIGTERM and SIGKILL.
const killDelay = 5 * time.Second

// Run runs the command and waits for it. If ctx ends, the command and all processes that it
// started get SIGTERM, and SIGKILL after killDelay; on Windows they end at once. Otherwise
// processes that the command leaves in the background keep running.
func (c *Command) Run(ctx context.Context, stdin io.Reader, variables ...string) error {
	cmd := shell(ctx, c.Line)
	cmd.Env = slices.Clone(c.Environ)
	for _, v := range variables {
		// A NUL would make exec fail, so the author of an object could stop the watches
		// of other users.
		cmd.Env = append(cmd.Env, strings.ReplaceAll(v, "\x00", ""))
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, c.Stdout, c.Stderr
	var g processGroup
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
	text, err := document.EncodeJSON(d, false)
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
