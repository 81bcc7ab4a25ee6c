package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/follow"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// watching is what watch was asked for.
type watching struct {
	tool   *tool
	format output.Format
	s      selection
	goal   follow.Goal

	wait      string
	count     int
	changes   bool
	previous  bool
	latest    bool
	place     string
	exec      string
	render    []string
	delay     time.Duration
	once      bool
	signal    string
	pidFile   string
	onFailure string

	synced bool // it has had everything that there was
}

const aboutWatch = `Show the objects of a resource, or those below a path, and then every change as it
happens. The watch survives the loss of its server: it reconnects and goes on where it
was. It ends with Ctrl-C.

With --exec a command runs for each change instead, one at a time and in order. It is
run by sh. The object is on its standard input, as a line of JSON; the variables
FANOUT_EVENT (added, modified or deleted), FANOUT_RESOURCE, FANOUT_KEY,
FANOUT_REVISION and FANOUT_CONTENT_TYPE say what has happened. The objects that are
there at the beginning are changes, too; --changes leaves them out. If the watch has
to begin anew, only what is different is told. --on-failure says what happens when a
command fails: stop (the default), continue, or retry.

With --render a file is kept up to date with what a template makes of all the objects.
The file is replaced at once and keeps its mode, only when it changes, and never before
all objects are known. Afterwards --signal tells a process, and --exec runs a command,
which has the files that have changed in FANOUT_FILES. If that fails, both happen
again after the next change or start.`

func watchCommand(t *tool) *cobra.Command {
	w := &watching{tool: t}
	cmd := &cobra.Command{
		Use:   "watch RESOURCE [PATH]",
		Short: "Show objects and every change, run commands, keep files up to date",
		Long:  aboutWatch,
		Example: `  fanoutctl watch config shop
  fanoutctl watch config --key shop/limits -o jsonl
  fanoutctl watch config shop --wait --timeout 1m
  fanoutctl watch routes --exec 'echo "$FANOUT_EVENT $FANOUT_KEY"; jq .value'
  fanoutctl watch routes --render /etc/haproxy/backends.cfg=backends.tmpl --signal HUP --pid-file /run/haproxy.pid`,
		Args:              arguments(cobra.RangeArgs(1, 2)),
		ValidArgsFunction: t.completePaths,
		RunE: func(cmd *cobra.Command, args []string) error {
			w.s.below(args)
			if err := w.check(); err != nil {
				return err
			}
			return w.run(cmd.Context(), args[0])
		},
	}
	formatFlag(cmd, &w.format, output.Table)
	w.s.bind(cmd)
	f := cmd.Flags()
	f.SortFlags = false
	f.StringVar(&w.s.key, "key", "", "only the object with this `key`")
	f.BoolVar(&w.changes, "changes", false, "only what changes from now on, without what there is")
	f.IntVar(&w.count, "count", 0, "end after this `number` of changes")
	f.StringVar(&w.wait, "wait", "", "end when there `is` an object (exists, the default) or none (absent)")
	f.Lookup("wait").NoOptDefVal = string(follow.Exists)
	f.BoolVar(&w.previous, "previous", false, "show objects as they were before, too (json, jsonl and yaml)")
	f.BoolVar(&w.latest, "latest", false, "when behind, only the latest state of each object")
	f.StringVar(&w.place, "position-file", "", "keep the position in this `file`, and go on there the next time")
	f.StringVar(&w.exec, "exec", "", "run this `command` for each change, or after files have changed")
	f.StringArrayVar(&w.render, "render", nil, "keep a file up to date with a template, as `file=template`; may be given several times")
	f.DurationVar(&w.delay, "delay", 100*time.Millisecond, "collect changes for this `time` before files are rendered")
	f.BoolVar(&w.once, "once", false, "end when the files have been rendered once")
	f.StringVar(&w.signal, "signal", "", "send this `signal`, such as HUP, after files have changed")
	f.StringVar(&w.pidFile, "pid-file", "", "`file` with the number of the process to signal")
	f.StringVar(&w.onFailure, "on-failure", string(follow.Stop), "what to do when a command fails: stop, continue or retry")
	return cmd
}

func (w *watching) check() error {
	var err error
	if w.goal, err = parseGoal(w.wait); err != nil {
		return err
	}
	renders := len(w.render) > 0
	switch {
	case w.s.key != "" && w.s.prefix != "":
		return usagef("a path and --key do not go together")
	case w.count < 0:
		return usagef("--count: must not be negative")
	case w.goal != follow.NoGoal && (w.exec != "" || renders):
		return usagef("--wait does not go with --exec and --render")
	case w.goal != follow.NoGoal && (w.changes || w.place != ""):
		return usagef("--wait is about what there is: it does not go with --changes and --position-file")
	case renders && (w.changes || w.place != "" || w.count != 0):
		return usagef("--render needs all objects: it does not go with --changes, --position-file and --count")
	case !renders && (w.signal != "" || w.once):
		return usagef("--signal and --once are for --render")
	case (w.signal == "") != (w.pidFile == ""):
		return usagef("--signal and --pid-file go together")
	case w.changes && w.place != "":
		return usagef("--changes and --position-file do not go together")
	case w.count != 0 && w.place != "":
		// An update may have more changes than are wanted, and there is no position
		// in the middle of one.
		return usagef("--count and --position-file do not go together")
	}
	switch follow.Policy(w.onFailure) {
	case follow.Stop, follow.Continue, follow.Retry:
		return nil
	}
	return usagef("--on-failure: must be stop, continue or retry, not %q", w.onFailure)
}

func (w *watching) run(ctx context.Context, resource string) (ended error) {
	r, err := w.tool.resource(resource)
	if err != nil {
		return err
	}
	ctx, cancel := w.tool.withTimeout(ctx, 0)
	defer cancel()
	opts := append(w.s.forWatch(), client.OnInterruption(w.tool.interrupted()))
	if w.changes {
		opts = append(opts, client.FromNow())
	}
	if w.previous {
		opts = append(opts, client.Previous())
	}
	if w.latest {
		opts = append(opts, client.Latest())
	}
	var keep follow.Keep
	if w.place != "" {
		place := &follow.PositionFile{Path: w.place, WatchSpec: follow.WatchSpec{
			Resource: resource, Prefix: w.s.prefix, Key: w.s.key, Labels: w.s.labels, Fields: w.s.fields,
		}}
		at, err := place.Load()
		if err != nil {
			return err
		}
		opts = append(opts, client.After(at))
		keep = place.Save
		defer func() {
			if closed := place.Close(); ended == nil {
				ended = closed
			}
		}()
	}
	updates := func(ctx context.Context) follow.Stream { return w.noting(r.Watch(ctx, opts...)) }

	switch {
	case len(w.render) > 0:
		err = w.rendering(ctx, resource, updates)
	case w.exec != "":
		e := follow.Executor{
			Resource: resource, Command: w.tool.command(w.exec), Policy: follow.Policy(w.onFailure),
			Report: w.tool.complain, Count: w.count, Position: keep,
		}
		err = e.Run(ctx, updates)
	default:
		p := follow.Printer{
			Events:      output.NewEvents(w.tool.writer(w.format), w.format, w.tool.width()),
			Differences: !output.MarksResets(w.format),
			Flush:       w.tool.out.Flush, Goal: w.goal, Count: w.count, Position: keep,
		}
		err = p.Run(ctx, updates)
	}
	return w.ended(ctx, err)
}

// noting notes when the watch has had everything that there was.
func (w *watching) noting(updates follow.Stream) follow.Stream {
	return func(yield func(*client.Update, error) bool) {
		for u, err := range updates {
			w.synced = w.synced || err == nil && u.Synced
			if !yield(u, err) {
				return
			}
		}
	}
}

// ended says how a watch ends that nobody has told when to.
func (w *watching) ended(ctx context.Context, err error) error {
	why := context.Cause(ctx)
	switch {
	case err == nil || why == nil || !errors.Is(err, why) && !errors.Is(err, context.Canceled) && !errors.Is(err, context.DeadlineExceeded):
		return err
	case w.goal != follow.NoGoal:
		return waited(ctx, err, &w.s, w.goal)
	case !w.synced && errors.Is(why, context.DeadlineExceeded):
		return exitError{exitTimeout, errors.New("the server has not told everything that there is, and the time is up that --timeout gives")}
	case w.count == 0 && !w.once:
		return nil // it was to last until then
	}
	return err
}

func (w *watching) rendering(ctx context.Context, resource string, updates follow.Updates) error {
	r := follow.Renderer{Resource: resource, Policy: follow.Policy(w.onFailure), Report: w.tool.complain, Delay: w.delay, Once: w.once}
	for _, one := range w.render {
		path, template, ok := strings.Cut(one, "=")
		if !ok || path == "" || template == "" {
			return usagef("--render: must be file=template, not %q", one)
		}
		f, err := follow.OpenTemplate(path, template)
		if err != nil {
			return usageError{err}
		}
		r.Files = append(r.Files, f)
	}
	var signal os.Signal
	if w.signal != "" {
		var err error
		if signal, err = follow.ParseSignal(w.signal); err != nil {
			return usageError{err}
		}
	}
	if signal == nil && w.exec == "" {
		return r.Run(ctx, updates)
	}
	r.Changed = func(ctx context.Context, files []string) error {
		if signal != nil {
			if err := follow.SignalPIDFile(w.pidFile, signal); err != nil {
				return err
			}
		}
		if w.exec == "" {
			return nil
		}
		return w.tool.command(w.exec).Run(ctx, nil, "FANOUT_RESOURCE="+resource, "FANOUT_FILES="+strings.Join(files, "\n"))
	}
	return r.Run(ctx, updates)
}

func (t *tool) command(line string) *follow.Command {
	return &follow.Command{Line: line, Environ: t.environ, Stdout: t.stdout, Stderr: t.stderr}
}

// complain reports what went wrong and does not end the command.
func (t *tool) complain(err error) {
	fmt.Fprintf(t.stderr, "fanoutctl: %s\n", t.explain(exitFailed, err))
}

// interrupted returns what reports that a watch has lost its server: once for each
// minute in which it has not found another.
func (t *tool) interrupted() func(error) {
	var last time.Time
	return func(err error) {
		if errors.Is(err, client.ErrDraining) || time.Since(last) < time.Minute {
			return
		}
		last = time.Now()
		fmt.Fprintf(t.stderr, "fanoutctl: %s; trying again\n", t.explain(exitUnavailable, err))
	}
}
