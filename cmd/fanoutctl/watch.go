package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/follow"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
	"github.com/fanoutd/fanoutd/internal/ctl/shell"
)

const watchLong = `Print the objects of a resource, or those below a path, and then every change. The watch
reconnects after a failure and resumes where it was. Stop it with Ctrl-C.

--exec runs a shell command for each change instead, one at a time and in order. Its
standard input is the object as one line of JSON. FANOUT_EVENT (added, modified or
deleted), FANOUT_RESOURCE, FANOUT_KEY, FANOUT_REVISION and FANOUT_CONTENT_TYPE describe
the change. Initial objects count as added; use --changes to skip them. If the watch has
to start over, the command runs only for real differences, but with --changes for all
objects. --on-failure sets what happens when a command fails: stop (the default), continue,
or retry. A retry does not delay other objects, and a newer change of its object replaces it.

--render keeps a file up to date from a template over all objects. The file is replaced
atomically, keeps its mode, and is written only when its content changes and all objects
are known. Afterwards --signal signals a process and --exec runs a command, with the
changed files in FANOUT_FILES. If either fails, both run again after the next change or
start.`

const watchExample = `  # Follow the objects below shop
  fanoutctl watch config shop

  # Follow one object, as JSON lines
  fanoutctl watch config --key shop/limits -o jsonl

  # Wait up to a minute until an object exists below shop
  fanoutctl watch config shop --wait --timeout 1m

  # Run a command for each change
  fanoutctl watch routes --exec 'echo "$FANOUT_EVENT $FANOUT_KEY"; jq .value'

  # Keep a configuration file up to date and reload its reader
  fanoutctl watch routes --render /etc/haproxy/backends.cfg=backends.tmpl --signal HUP --pid-file /run/haproxy.pid`

// watchFlags are the flags of the watch command, and its state.
type watchFlags struct {
	tool   *tool
	format output.Format
	s      selection
	goal   follow.Goal

	wait         string
	count        int
	changes      bool
	previous     bool
	latest       bool
	from         string
	positionFile string
	exec         string
	render       []string
	delay        time.Duration
	once         bool
	signal       string
	pidFile      string
	onFailure    string

	show    func(*client.Update) error // prints an update
	resumes bool                       // the watch begins after a position, and has received nothing yet
	synced  bool                       // the initial state is complete
}

func watchCommand(t *tool) *cobra.Command {
	w := &watchFlags{tool: t}
	cmd := &cobra.Command{
		Use:     "watch RESOURCE [PATH]",
		Short:   "Follow changes; run commands or render files",
		Long:    watchLong,
		Example: watchExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.s.setPath(args)
			if err := w.check(); err != nil {
				return err
			}
			events := t.printer(w.format).Events()
			w.show = func(u *client.Update) error {
				if err := events.Show(u); err != nil {
					return err
				}
				return t.out.Flush()
			}
			return w.run(cmd.Context(), args[0])
		},
	}
	formatFlag(cmd, &w.format, output.Table)
	w.s.bind(cmd)
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&w.s.key, "key", "", "watch only the object with this `key`")
	f.BoolVar(&w.changes, "changes", false, "skip the initial objects")
	f.IntVar(&w.count, "count", 0, "exit after this `number` of changes (0: no limit)")
	bindGoal(cmd, &w.wait)
	f.BoolVar(&w.previous, "previous", false, "include the previous state of changed objects (json, jsonl and yaml)")
	f.BoolVar(&w.latest, "latest", false, "when behind, skip to the latest state of each object")
	f.StringVar(&w.from, "from", "", "show the changes after this `position`: a revision, or EPOCH:REVISION")
	f.StringVar(&w.positionFile, "position-file", "", "save the position in this `file` and resume from it at the next start")
	f.StringVar(&w.exec, "exec", "", "run this `command` for each change, or after rendered files have changed")
	f.StringArrayVar(&w.render, "render", nil, "keep a file up to date from a template, as `file=template`; can be repeated")
	f.DurationVar(&w.delay, "delay", 100*time.Millisecond, "collect changes for this `duration` before rendering files")
	f.BoolVar(&w.once, "once", false, "exit after rendering the files once")
	f.StringVar(&w.signal, "signal", "", "send this `signal`, such as HUP, after rendered files have changed")
	f.StringVar(&w.pidFile, "pid-file", "", "`file` with the process ID to signal")
	f.StringVar(&w.onFailure, "on-failure", string(follow.Stop), "`action` when a command fails: stop, continue or retry")
	return cmd
}

// check validates the flags.
func (w *watchFlags) check() error {
	var err error
	if w.goal, err = follow.ParseGoal(w.wait); err != nil {
		return usagef("--wait: %w", err)
	}
	renders := len(w.render) > 0
	switch {
	case w.s.key != "" && w.s.prefix != "":
		return usagef("PATH and --key are mutually exclusive")
	case w.goal != follow.NoGoal && (w.exec != "" || renders):
		return usagef("--wait cannot be combined with --exec or --render")
	case w.goal != follow.NoGoal && (w.changes || w.positionFile != ""):
		return usagef("--wait needs the initial objects and cannot be combined with --changes or --position-file")
	case renders && (w.changes || w.positionFile != "" || w.count != 0):
		return usagef("--render needs all objects and cannot be combined with --changes, --position-file or --count")
	case !renders && (w.signal != "" || w.once):
		return usagef("--signal and --once require --render")
	case (w.signal == "") != (w.pidFile == ""):
		return usagef("--signal and --pid-file must be set together")
	case w.from != "" && (w.changes || w.positionFile != "" || w.goal != follow.NoGoal || renders):
		return usagef("--from cannot be combined with --changes, --position-file, --wait or --render")
	case w.changes && w.positionFile != "":
		return usagef("--changes and --position-file are mutually exclusive")
	case w.count != 0 && w.positionFile != "":
		// The count may be reached in the middle of an update, where there is no position.
		return usagef("--count and --position-file are mutually exclusive")
	}
	switch follow.Policy(w.onFailure) {
	case follow.Stop, follow.Continue, follow.Retry:
		return nil
	}
	return usagef("--on-failure: invalid value %q (want stop, continue or retry)", w.onFailure)
}

func (w *watchFlags) run(ctx context.Context, resource string) (runErr error) {
	r := w.tool.client.Resource(resource).JSONValues()
	w.tool.noteWrongKey(w.s.key)
	ctx, cancel := w.tool.withTimeout(ctx, 0)
	defer cancel()
	opts := append(w.s.forWatch(), client.OnInterruption(w.tool.reportInterruptions(ctx, resource)))
	if w.changes {
		opts = append(opts, client.FromNow())
	}
	if w.previous {
		opts = append(opts, client.Previous())
	}
	if w.latest {
		opts = append(opts, client.Latest())
	}
	if w.from != "" {
		position, err := w.tool.parsePosition(ctx, r, w.from)
		if err != nil {
			return err
		}
		opts, w.resumes = append(opts, client.After(position)), true
	}
	var save follow.SavePosition
	if w.positionFile != "" {
		file := &follow.PositionFile{Path: w.positionFile, WatchSpec: follow.WatchSpec{
			Resource: resource, Prefix: w.s.prefix, Key: w.s.key, Labels: w.s.labels, Fields: w.s.fields,
		}}
		position, err := file.Load()
		if err != nil {
			return inputError(err)
		}
		opts, w.resumes = append(opts, client.After(position)), position.Revision > 0
		save = file.Save
		defer func() {
			if err := file.Close(); runErr == nil {
				runErr = err
			}
		}()
	}
	if w.exec == "" && len(w.render) == 0 {
		opts = append(opts, client.WithoutReports()) // the changes are only shown
	}
	command := w.tool.command(w.exec)
	defer command.Close()
	e := follow.Executor{
		Resource: resource, Command: command, Policy: follow.Policy(w.onFailure), Report: w.tool.warn,
		Count: w.count, Save: save,
	}
	renderer := follow.Renderer{Resource: resource, Policy: follow.Policy(w.onFailure), Report: w.tool.warn, Delay: w.delay, Once: w.once}
	switch {
	case len(w.render) > 0:
		renderer.Failures.Defer()
		opts = append(opts, client.ReportFailures(&renderer.Failures))
	case w.exec != "":
		opts = append(opts, client.ReportFailures(&e.Failures))
	}
	updates := func(ctx context.Context) follow.Stream { return w.trackSync(ctx, r, r.Watch(ctx, opts...)) }

	var err error
	switch {
	case len(w.render) > 0:
		err = w.runRenderer(ctx, &renderer, command, updates)
	case w.exec != "":
		err = e.Run(ctx, updates)
	default:
		return w.print(ctx, updates, save)
	}
	return w.result(ctx, err)
}

// errPipeClosed is the cause of a watch that ends because standard output has no reader.
var errPipeClosed = errors.New("standard output is closed")

// print prints the changes. It ends without an error when the reader of standard output has closed it, even
// if nothing more happens.
func (w *watchFlags) print(ctx context.Context, updates follow.Updates, save follow.SavePosition) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if w.goal == follow.NoGoal {
		stop, err := pipe.OnClosed(w.tool.stdout, func() { cancel(errPipeClosed) })
		if err != nil {
			return err
		}
		defer stop()
	}
	f := follow.Follower{Handle: w.show, Differences: !output.MarksResets(w.format), Goal: w.goal, Count: w.count, Save: save}
	err := f.Run(ctx, updates)
	if w.goal == follow.NoGoal && (pipe.IsClosed(err) || errors.Is(context.Cause(ctx), errPipeClosed)) {
		w.tool.out.Reset(io.Discard)
		return nil
	}
	return w.result(ctx, err)
}

// trackSync passes the updates on and sets w.synced. If a watch that should resume begins with the whole
// state instead, it prints a note, because a table shows the objects like changes.
func (w *watchFlags) trackSync(ctx context.Context, r *client.Resource, updates follow.Stream) follow.Stream {
	return func(yield func(*client.Update, error) bool) {
		begun := false // with an object, or without any
		for u, err := range updates {
			if err == nil {
				w.tool.interruption = nil
				if !begun && len(u.Events) == 0 && u.Phase.Complete() {
					w.tool.noteMixup(ctx, r, &w.s, "watch")
				}
				begun = begun || len(u.Events) > 0 || u.Phase.Complete()
				if w.resumes && u.Phase == client.PhaseReset {
					fmt.Fprintln(w.tool.stderr, "fanoutctl: the server no longer has the changes since that position; all objects follow")
				}
				w.resumes = false
			}
			// With --changes there is no initial state to wait for.
			w.synced = w.synced || err == nil && (u.Phase == client.PhaseSynced || w.changes)
			if !yield(u, err) {
				return
			}
		}
	}
}

// result returns the error of a watch that has ended with err. A watch without a goal
// succeeds when it is stopped, unless the time is up before the initial state is complete.
func (w *watchFlags) result(ctx context.Context, err error) error {
	cause := context.Cause(ctx)
	switch {
	case err == nil || cause == nil || !errors.Is(err, cause) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case w.goal != follow.NoGoal && !errors.Is(cause, context.DeadlineExceeded):
		return err
	case w.goal == follow.Absent:
		return exitError{exitTimeout, w.tool.timedOut(" waiting until no object%s exists", &w.s)}
	case w.goal == follow.Exists:
		return exitError{exitTimeout, w.tool.timedOut(" waiting for an object%s", &w.s)}
	case !w.synced && errors.Is(cause, context.DeadlineExceeded):
		return exitError{exitTimeout, w.tool.timedOut(" before the initial state was complete")}
	case w.count == 0 && !w.once:
		return nil
	case errors.Is(cause, context.DeadlineExceeded):
		return exitError{exitTimeout, w.tool.timedOut(" before the watch was done")}
	}
	return err
}

func (w *watchFlags) runRenderer(ctx context.Context, r *follow.Renderer, command *shell.Command, updates follow.Updates) error {
	for _, arg := range w.render {
		path, template, ok := strings.Cut(arg, "=")
		if !ok || path == "" || template == "" {
			return usagef("--render: invalid value %q (want file=template)", arg)
		}
		f, err := follow.OpenTemplate(ctx, path, template)
		if err != nil && ctx.Err() != nil {
			return err
		} else if err != nil {
			return usageError{err}
		}
		r.Files = append(r.Files, f)
	}
	var signal os.Signal
	if w.signal != "" {
		var err error
		if signal, err = shell.ParseSignal(w.signal); err != nil {
			return usageError{err}
		}
	}
	if signal == nil && w.exec == "" {
		return r.Run(ctx, updates)
	}
	r.Changed = func(ctx context.Context, files []string) error {
		if signal != nil {
			if err := shell.SignalPIDFile(w.pidFile, signal); err != nil {
				return err
			}
		}
		if w.exec == "" {
			return nil
		}
		return command.Run(ctx, nil, "FANOUT_RESOURCE="+r.Resource, "FANOUT_FILES="+strings.Join(files, "\n"))
	}
	return r.Run(ctx, updates)
}

func (t *tool) command(line string) *shell.Command {
	return &shell.Command{Line: line, Environ: t.environ, Stdout: t.stdout, Stderr: t.stderr}
}

// warn prints an error that does not end the command.
func (t *tool) warn(err error) {
	fmt.Fprintf(t.stderr, "fanoutctl: %s\n", t.explain(exitFailed, err))
}

// parsePosition returns the position that a flag names: a revision of the present epoch that exists, or
// EPOCH:REVISION.
func (t *tool) parsePosition(ctx context.Context, r *client.Resource, text string) (client.Position, error) {
	epoch, revision := "", text
	if i := strings.LastIndexByte(text, ':'); i >= 0 {
		epoch, revision = text[:i], text[i+1:]
	}
	n, err := strconv.ParseInt(revision, 10, 64)
	if err != nil || n < 1 || epoch == "" && strings.Contains(text, ":") {
		return client.Position{}, usagef("invalid position %q (want a revision, or EPOCH:REVISION as -o json shows them)", text)
	}
	if epoch == "" {
		ctx, cancel := t.withTimeout(ctx, requestTimeout)
		defer cancel()
		page, err := r.ListPage(ctx, client.PageSize(1), client.AllowStale())
		if err == nil && page.Position.Revision < n {
			page, err = r.ListPage(ctx, client.PageSize(1)) // the server may lag behind etcd
		}
		if err != nil {
			return client.Position{}, fmt.Errorf("cannot find the present epoch: %w", err)
		}
		if page.Position.Revision < n {
			return client.Position{}, exitError{exitNotFound, fmt.Errorf("revision %d does not exist yet; the last one is %d", n, page.Position.Revision)}
		}
		epoch = page.Position.Epoch
	}
	return client.Position{Epoch: epoch, Revision: n}, nil
}
