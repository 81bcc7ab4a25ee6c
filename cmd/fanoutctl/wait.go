package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/charmbracelet/colorprofile"
	"github.com/schollz/progressbar/v3"
	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/selector"
)

const waitLong = `Wait until a share of the watches of a resource, or of those that overlap a path or a key,
has applied a revision, over all servers. Only watches of programs that report what they
have applied count, as the informers of the clients do. Others are listed; with
--require-all they count, too. --subscribers and --instance select watches by the labels and
the name of their program.

The exit code is 0 if the quorum is reached, 9 as soon as more watches than --tolerate have
received the revision and reported an error for the key or the path, and 7 if --timeout
(default 2m) has elapsed first. The watches that have not applied the revision are listed.

Name all servers in --server, because each knows only its own watches. A server that does
not answer is reported and tried again. Until each server has answered once, the quorum is
not reached, except with --allow-missing-servers. The watches of a server that stops
answering later count as ended.

A watch that has ended still counts for the duration of --settle, because its client may be
on its way to another server. At least one watch must have applied the revision: set
--min-watches where the number of subscribers is known, or to 0 if there may be none.

On a terminal, a bar shows the progress. Otherwise, a line on standard error does, whenever
something changes and every ten seconds.`

const waitExample = `  # Wait until every watch has applied revision 42
  fanoutctl wait config --revision 42 --timeout 1m

  # 99% of at least 200 watches below shop; up to two may fail
  fanoutctl wait config shop --revision 42 --quorum 99% --min-watches 200 --tolerate 2

  # Only the programs with the label app=cart
  fanoutctl wait config --revision 42 --subscribers app=cart

  # Write, then wait for the revision of the write
  fanoutctl put config shop/limits '{"rps": 100}' --wait --timeout 1m`

func waitCommand(t *tool) *cobra.Command {
	var (
		format   output.Format
		g        gateFlags
		s        selection
		revision int64
	)
	cmd := &cobra.Command{
		Use:     "wait RESOURCE [PATH]",
		Short:   "Wait until the watchers have applied a revision",
		Long:    waitLong,
		Example: waitExample,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.setPath(args)
			switch {
			case s.key != "" && s.prefix != "":
				return usagef("PATH and --key are mutually exclusive")
			case revision < 1:
				return usagef("--revision is required and must be at least 1")
			}
			if err := g.check(); err != nil {
				return err
			}
			servers, err := t.eachServer(cmd.Context())
			if err != nil {
				return err
			}
			options := g.options(servers, args[0], &s, revision)
			status, err := t.awaitApplied(cmd.Context(), options)
			if status != nil && status.Watches == 0 && len(status.Missing()) < len(status.Servers) {
				t.noteMixup(cmd.Context(), t.client.Resource(args[0]), &s, "wait")
			}
			if !isOutcome(err) {
				return refusingServer(status, err)
			}
			switch format {
			case output.Table, output.Wide, output.Key:
				if err == nil {
					fmt.Fprintf(t.stderr, "%s.\n", status)
				}
				rows := admin.PendingRows(status)
				if format == output.Key {
					rows = rows[:len(status.Pending)] // only those that count
				}
				err = errors.Join(err, output.Records(t.printer(format), admin.PendingColumns(len(servers) > 1), rows))
			default:
				err = errors.Join(err, t.printer(format).Record(admin.NewWait(args[0], s.prefix, s.key, status, err)))
			}
			return waitError(err, &options)
		},
	}
	formatFlag(cmd, &format, output.Table)
	cmd.Flags().SortFlags = false
	cmd.Flags().Int64Var(&revision, "revision", 0, "`revision` to apply, such as put prints it")
	cmd.Flags().StringVar(&s.key, "key", "", "wait for the watches that overlap this `key`")
	g.bind(cmd)
	return cmd
}

// waitTimeout is the default timeout of wait and put --wait: a gate never waits without an end.
const waitTimeout = 2 * time.Minute

// maxInstanceBytes is the longest name that a subscriber can have; see Subscriber in fanout.proto.
const maxInstanceBytes = 253

// gateFlags are the flags of wait and of put --wait.
type gateFlags struct {
	subscribers  string
	instance     string
	requireAll   bool
	quorum       percentage
	tolerate     int64
	minWatches   int64
	allowMissing bool
	settle       time.Duration
}

func (g *gateFlags) bind(cmd *cobra.Command) {
	g.quorum = 100
	f := cmd.Flags()
	f.Var(&g.quorum, "quorum", "`share` of the watches that must have applied the revision, such as 99%")
	f.Int64Var(&g.tolerate, "tolerate", 0, "`number` of watches that may fail; they do not count for the quorum")
	f.Int64Var(&g.minWatches, "min-watches", 1, "minimum `number` of watches; 0: there may be none")
	f.StringVar(&g.subscribers, "subscribers", "", "wait only for programs whose labels match this `selector`, such as app=cart")
	f.StringVar(&g.instance, "instance", "", "wait only for programs with this `name`")
	f.BoolVar(&g.requireAll, "require-all", false, "also count watches that do not report what they have applied")
	f.BoolVar(&g.allowMissing, "allow-missing-servers", false, "succeed without the servers that have never answered")
	f.DurationVar(&g.settle, "settle", client.DefaultSettle, "`duration` for which a watch that has ended still counts")
	for _, name := range gateFlagNames[2:] {
		_ = cmd.RegisterFlagCompletionFunc(name, cobra.NoFileCompletions)
	}
}

// gateFlagNames are the flags of gateFlags; the first two have no value.
var gateFlagNames = []string{"allow-missing-servers", "require-all", "quorum", "tolerate", "min-watches", "settle", "subscribers", "instance"}

// check validates the flags.
func (g *gateFlags) check() error {
	if _, err := selector.ParseLabels(g.subscribers); err != nil {
		return usagef("--subscribers: %v", err)
	}
	if len(g.instance) > maxInstanceBytes { // put --wait must not write before the server refuses it
		return usagef("--instance has more than %d bytes", maxInstanceBytes)
	}
	return nil
}

// gateOptions say what to wait for.
type gateOptions struct {
	client.WaitOptions
	selection string    // of the watches, for people
	pending   *[]string // the names of the watches that had not applied the revision when there were some
}

// options returns what to wait for.
func (g *gateFlags) options(servers []client.Server, resource string, s *selection, revision int64) gateOptions {
	o := gateOptions{selection: fmt.Sprintf("resource %q", resource), pending: new([]string)}
	o.WaitOptions = client.WaitOptions{
		Servers: servers, Resource: resource, Scope: s.scope(), Revision: revision,
		Quorum: float64(g.quorum) / 100, Tolerate: g.tolerate, MinWatches: g.minWatches,
		AllowMissingServers: g.allowMissing, Settle: g.settle, Subscribers: g.subscribers, Instance: g.instance, RequireAll: g.requireAll,
	}
	if g.minWatches == 0 {
		o.MinWatches = -1
	}
	if g.settle == 0 {
		o.Settle = -1
	}
	switch {
	case s.key != "":
		o.selection = fmt.Sprintf("key %q", s.key)
	case s.prefix != "":
		o.selection = fmt.Sprintf("path %q", s.prefix)
	}
	if g.subscribers != "" {
		o.selection += fmt.Sprintf(" and subscribers %q", g.subscribers)
	}
	if g.instance != "" {
		o.selection += fmt.Sprintf(" and instance %q", g.instance)
	}
	return o
}

// percentage is a flag such as 99.5%.
type percentage float64

// Set implements pflag.Value.
func (p *percentage) Set(text string) error {
	digits, ok := strings.CutSuffix(text, "%")
	n, err := strconv.ParseFloat(digits, 64)
	if !ok || err != nil || !(n > 0 && n <= 100) {
		return errors.New("want a percentage above 0% and up to 100%, such as 99%")
	}
	*p = percentage(n)
	return nil
}

// String implements pflag.Value.
func (p *percentage) String() string { return strconv.FormatFloat(float64(*p), 'f', -1, 64) + "%" }

// Type implements pflag.Value.
func (p *percentage) Type() string { return "percentage" }

// awaitApplied waits, and shows the progress on standard error.
func (t *tool) awaitApplied(ctx context.Context, o gateOptions) (*client.WaitStatus, error) {
	ctx, cancel := t.withTimeout(ctx, waitTimeout)
	defer cancel()
	shown := waitProgress{tool: t, ctx: ctx, options: &o, reported: map[string]time.Time{}, printed: time.Now()}
	o.Progress = shown.show
	status, err := client.Wait(ctx, o.WaitOptions)
	if bar := shown.bar; bar != nil {
		if err == nil {
			_ = bar.Set(waitSteps)
		}
		bar.finish()
	}
	return status, err
}

// waitProgress shows the progress of a wait.
type waitProgress struct {
	tool     *tool
	ctx      context.Context
	options  *gateOptions
	bar      *progress            // nil before the first status
	reported map[string]time.Time // when the loss of a server was reported
	answered bool                 // a server has answered
	text     string               // the latest line, without a terminal
	printed  time.Time            // when it was printed
}

// Without a terminal, a wait prints a line at most every second, and at least every ten seconds.
const (
	lineInterval    = time.Second
	maxLineInterval = 10 * time.Second
)

// waitSteps is the length of the progress bar. The number of watches changes while the command
// waits, and a bar that has once been full does not change any more.
const waitSteps = 1000

// show reports the servers that do not answer, each at most once per minute, and draws the
// progress bar.
func (p *waitProgress) show(s *client.WaitStatus) {
	if s.Watches > 0 && p.options.pending != nil {
		*p.options.pending = nil
		for _, w := range s.Pending {
			*p.options.pending = append(*p.options.pending, w.Name())
		}
	}
	if p.bar == nil {
		p.bar = p.tool.newProgress(waitSteps, progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(true))
	}
	for _, v := range s.Missing() {
		if v.Err == nil || errors.Is(v.Err, client.ErrDraining) || time.Since(p.reported[v.Address]) < time.Minute {
			continue
		}
		p.reported[v.Address] = time.Now()
		p.bar.printf("fanoutctl: %s; retrying\n", p.tool.explainServer(p.ctx, v.Address, v.Err))
	}
	if !isTerminal(p.tool.stderr) {
		p.printLine(s)
		return
	}
	text := fmt.Sprintf("%d of %d applied", s.Applied, s.Watches)
	if s.Failed > 0 {
		text += fmt.Sprintf(", %d failed", s.Failed)
	}
	done := int64(waitSteps)
	if s.Required > 0 {
		done = s.Applied * waitSteps / s.Required
	}
	p.bar.Describe(text)
	_ = p.bar.Set64(min(done, waitSteps-1))
}

// printLine prints a line about the status if it has changed, or if the last line is old.
func (p *waitProgress) printLine(s *client.WaitStatus) {
	if s.Ended {
		return // the command prints the outcome
	}
	if !p.answered && len(s.Missing()) < len(s.Servers) {
		p.answered, p.printed = true, time.Now()
	}
	text, age := s.Detail()+noWatches(s, p.options), time.Since(p.printed)
	if age < lineInterval || (text == p.text || !p.answered) && age < maxLineInterval {
		return
	}
	p.text, p.printed = text, time.Now()
	fmt.Fprintf(p.tool.stderr, "waiting: %s\n", text)
}

// noWatches explains why a wait without any watch goes on: which watches have ended, or that there were none. It returns "" for other waits.
func noWatches(s *client.WaitStatus, o *gateOptions) string {
	if s.Watches > 0 || o.MinWatches < 0 || len(s.Missing()) == len(s.Servers) {
		return ""
	}
	if o.pending != nil && len(*o.pending) > 0 {
		return fmt.Sprintf("; ended without applying it: %s", strings.Join((*o.pending)[:min(3, len(*o.pending))], ", "))
	}
	return fmt.Sprintf("; no watch that reports concerns %s (use --min-watches 0 if there need be none)", o.selection)
}

// isOutcome reports whether a wait with this error has a status to show.
func isOutcome(err error) bool {
	return err == nil || errors.As(err, new(*client.RefusedError)) || errors.As(err, new(*client.NotReachedError))
}

// refusingServer returns the error of the server that has ended a wait, so that the message can
// name it.
func refusingServer(s *client.WaitStatus, err error) error {
	if s != nil {
		for _, v := range s.Missing() {
			if v.Err != nil && errors.Is(err, v.Err) {
				return serverError{v.Address, v.Err}
			}
		}
	}
	return err
}

// waitError returns the error of a wait with its exit code.
func waitError(err error, o *gateOptions) error {
	if refused, ok := errors.AsType[*client.RefusedError](err); ok {
		return exitError{exitRefused, refused}
	}
	ended, ok := errors.AsType[*client.NotReachedError](err)
	if !ok || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	var text strings.Builder
	text.WriteString("timed out: " + ended.Status.Detail() + noWatches(ended.Status, o))
	for _, v := range ended.Status.Missing() {
		if !v.Answered && !o.AllowMissingServers {
			text.WriteString("; use --allow-missing-servers to succeed without the servers that have never answered")
			break
		}
	}
	return exitError{exitTimeout, errors.New(text.String())}
}

// printPending lists the watches that have not applied a revision on standard error.
func (t *tool) printPending(s *client.WaitStatus) error {
	w := &colorprofile.Writer{Forward: t.stderr, Profile: colorprofile.Detect(t.stderr, t.environ)}
	return output.Records(output.Printer{W: w, Format: output.Table}, admin.PendingColumns(len(s.Servers) > 1), admin.PendingRows(s))
}
