package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// description is an object with its history and its watches, as shown in JSON and YAML.
type description struct {
	Resource string            `json:"resource"`
	Object   document.Document `json:"object"`
	// LastChange is absent if the resource has no history, or not that of the object.
	LastChange *change `json:"lastChange,omitempty"`
	// HistoryFrom is the first revision that the history covers, and 0 if the server does not know
	// any.
	HistoryFrom int64            `json:"historyFrom"`
	History     []describedEvent `json:"history"`
	// Watches is null without the right to list them.
	Watches []admin.Watcher `json:"watches"`

	object  *client.Object
	events  []client.Event
	several bool
}

// describedEvent is a change of an object.
type describedEvent struct {
	output.Event
	// Change is absent if the history of the resource does not have it.
	Change *change `json:"change,omitempty"`
}

func describeCommand(t *tool) *cobra.Command {
	var format output.Format
	cmd := &cobra.Command{
		Use:   "describe RESOURCE KEY",
		Short: "Show an object with its history and its watches",
		Long: `Show the metadata and the value of an object, its changes as far as the server has them in
memory, and the watches that receive it. These changes and the watches require the right
"admin" to the resource. If the resource has a history, show who wrote the object last and why,
and who made each change and when, which requires the right "history".`,
		Example: `  # Show who watches an object, and its last changes
  fanoutctl describe config shop/limits

  # The same for programs
  fanoutctl describe config shop/limits -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if format != output.Table && !format.IsRecord() {
				return usagef("unsupported output format %q (want table, json, jsonl, yaml or a template)", format)
			}
			ctx, cancel := t.withTimeout(cmd.Context(), requestTimeout)
			defer cancel()
			d, err := t.describe(ctx, args[0], keyOf(args[1]))
			if d == nil {
				return err
			}
			if format != output.Table {
				return errors.Join(t.printer(format).Record(d), err)
			}
			return errors.Join(d.print(t.printer(output.Table)), err)
		},
	}
	formatFlag(cmd, &format, output.Table)
	return cmd
}

// describe collects what the servers know about an object. If some servers fail, it returns the description
// and an error.
func (t *tool) describe(ctx context.Context, resource, key string) (*description, error) {
	r := t.client.Resource(resource).JSONValues()
	o, err := r.Get(ctx, key, client.LastChange())
	if isDenied(err) {
		o, err = r.Get(ctx, key) // the last change is not essential
	}
	if err != nil {
		return nil, t.explainMissing(ctx, r, key, err)
	}
	d := &description{Resource: resource, Object: document.Of(o), History: []describedEvent{}, object: o}
	if c := o.LastChange; c != nil {
		d.LastChange = &change{Author: c.Author, Time: c.Time, Message: c.Message}
	}
	servers, err := t.servers(ctx)
	if err != nil {
		return nil, err
	}
	d.several = len(servers) > 1
	partial, err := t.findWatches(ctx, r, d)
	if err != nil {
		return nil, err
	}
	// The history comes last, because reading it is a watch, too.
	err = d.readHistory(ctx, r, servers)
	return d, errors.Join(partial, err, d.findAuthors(ctx, r))
}

// findAuthors finds out who has made the changes, if there is a history.
func (d *description) findAuthors(ctx context.Context, r *client.Resource) error {
	if d.LastChange == nil || len(d.History) == 0 {
		return nil
	}
	changes := map[int64]*change{}
	for e, err := range r.History(ctx, client.Key(d.object.Key)) {
		if err != nil {
			return err
		}
		if e.Revision != 0 && e.Revision < d.History[0].Revision {
			break
		}
		if !e.Change.Time.IsZero() {
			changes[e.Revision] = &change{Author: e.Change.Author, Time: e.Change.Time, Message: e.Change.Message}
		}
	}
	for i := range d.History {
		d.History[i].Change = changes[d.History[i].Revision]
	}
	return nil
}

// findWatches finds the watches that receive the object. partial is the error of servers that fail.
func (t *tool) findWatches(ctx context.Context, r *client.Resource, d *description) (partial, err error) {
	answers, partial := ask(ctx, t, func(ctx context.Context, a *admin.Admin) (admin.WatcherList, error) {
		return a.Watchers(ctx, d.Resource, true, false)
	})
	if answers == nil {
		return nil, nil // they are not essential
	}
	matches := map[selection]bool{}
	d.Watches = []admin.Watcher{}
	for _, w := range admin.MergeWatchers(answers, true).Watchers {
		if w.Key != "" && w.Key != d.object.Key || w.Prefix != "" && !strings.HasPrefix(d.object.Key, strings.TrimSuffix(w.Prefix, "/")+"/") {
			continue
		}
		// The server knows best whether an object matches a selector.
		s := selection{key: d.object.Key, labels: w.Labels, fields: w.Fields}
		match, known := matches[s]
		if !known {
			n, err := r.Count(ctx, s.forList()...)
			if err != nil {
				return nil, err
			}
			match = n > 0
			matches[s] = match
		}
		if match {
			d.Watches = append(d.Watches, w)
		}
	}
	return partial, nil
}

// readHistory reads the changes of the object from the first server that has it in its window.
func (d *description) readHistory(ctx context.Context, r *client.Resource, servers []*admin.Admin) error {
	for _, server := range servers {
		all, err := server.Resources(ctx, false)
		i := slices.IndexFunc(all, func(r admin.Resource) bool { return r.Name == d.Resource })
		if err != nil || i < 0 || all[i].Window == nil || all[i].Position == nil {
			continue // the history is not essential
		}
		from := max(d.object.CreateRevision, all[i].Window.OldestRevision+1)
		if from > d.object.ModRevision {
			d.HistoryFrom = from
			return nil
		}
		d.events, d.History = nil, []describedEvent{}
		after := client.Position{Epoch: all[i].Position.Epoch, Revision: from - 1}
		err = d.replay(ctx, r, after)
		if errors.Is(err, client.ErrPositionExpired) || errors.Is(err, client.ErrEpochChanged) {
			continue // the window has moved on meanwhile, or another server has answered
		}
		d.HistoryFrom = from
		return err
	}
	return nil
}

// replay reads the changes after a position, up to the present version.
func (d *description) replay(ctx context.Context, r *client.Resource, after client.Position) error {
	for u, err := range r.Watch(ctx, client.Key(d.object.Key), client.After(after), client.EveryEvent(), client.WithoutReports()) {
		if err != nil {
			return err
		}
		for _, e := range u.Events {
			d.events, d.History = append(d.events, e), append(d.History, describedEvent{Event: output.NewEvent(e)})
			if e.Revision >= d.object.ModRevision {
				return nil
			}
		}
		if u.Phase.Complete() && u.Position.Revision >= d.object.ModRevision {
			return nil
		}
	}
	return context.Cause(ctx)
}

// print writes the description for people.
func (d *description) print(p output.Printer) error {
	o := d.object
	out := output.Visible(p.W)
	row := func(name, value string) {
		fmt.Fprintln(out, strings.TrimRight(fmt.Sprintf("%-14s%s", name, value), " "))
	}
	row("Key:", o.Key)
	row("Resource:", d.Resource)
	row("Content type:", cmp.Or(o.ContentType, "-"))
	row("Size:", output.Size(len(o.Value)))
	name := "Labels:"
	for _, label := range slices.Sorted(maps.Keys(o.Labels)) {
		row(name, label+"="+o.Labels[label])
		name = ""
	}
	if len(o.Labels) == 0 {
		row(name, "-")
	}
	row("Created:", fmt.Sprintf("revision %d", o.CreateRevision))
	row("Changed:", fmt.Sprintf("revision %d, version %d", o.ModRevision, o.Version))
	if c := o.LastChange; c != nil {
		row("Written by:", fmt.Sprintf("%s, %s", author(c.Author), c.Time.UTC().Format(time.RFC3339)))
		if c.Message != "" {
			row("Message:", strings.ReplaceAll(c.Message, "\n", "\n"+strings.Repeat(" ", 14)))
		}
	}
	if o.HasTTL {
		row("Time to live:", cmp.Or(d.Object.TTL, "unknown"))
	}
	switch {
	case o.Undecryptable():
		row("Value:", "the server cannot decrypt it")
	case !utf8.Valid(o.Value):
		row("Value:", "binary data")
	default:
		note := ""
		if o.Opaque {
			note = "the server cannot decode it; these are the stored bytes"
		}
		row("Value:", note)
		for line := range strings.Lines(string(o.Value)) {
			fmt.Fprintf(out, "  %s\n", strings.TrimRight(line, "\r\n"))
		}
	}
	if err := d.printHistory(p); err != nil {
		return err
	}
	return d.printWatches(p)
}

func (d *description) printHistory(p output.Printer) error {
	switch {
	case d.HistoryFrom == 0:
		fmt.Fprint(p.W, "\nHistory: not available\n")
		return nil
	case len(d.events) == 0:
		fmt.Fprintf(p.W, "\nHistory: no changes since revision %d, the oldest in memory\n", d.HistoryFrom)
		return nil
	}
	title := "all changes"
	if d.HistoryFrom > d.object.CreateRevision {
		title = fmt.Sprintf("since revision %d, the oldest in memory", d.HistoryFrom)
	}
	fmt.Fprintf(p.W, "\nHistory (%s):\n", title)
	return p.Events(d.authorColumns()...).Show(&client.Update{Phase: client.PhaseLive, Events: d.events})
}

// authorColumns returns the columns for who has made a change, and when; none if there is no history.
func (d *description) authorColumns() []output.Column[client.Event] {
	if d.LastChange == nil {
		return nil
	}
	changes := map[int64]*change{}
	for _, e := range d.History {
		changes[e.Revision] = e.Change
	}
	column := func(title string, cell func(*change) string) output.Column[client.Event] {
		return output.Column[client.Event]{Title: title, Cell: func(e client.Event) string {
			if c := changes[e.Revision]; c != nil {
				return cell(c)
			}
			return "-"
		}}
	}
	return []output.Column[client.Event]{
		column("TIME", func(c *change) string { return c.Time.UTC().Format(time.RFC3339) }),
		column("AUTHOR", func(c *change) string { return author(c.Author) }),
	}
}

func (d *description) printWatches(p output.Printer) error {
	if d.Watches == nil {
		fmt.Fprint(p.W, "\nWatches: not available\n")
		return nil
	}
	fmt.Fprintf(p.W, "\nWatches (%d):\n", len(d.Watches))
	rows := make([]admin.Watcher, len(d.Watches))
	for i, one := range d.Watches {
		rows[i] = one.About(d.object.Key, d.object.ModRevision)
	}
	return output.Records(p, admin.WatcherColumns(d.several, false), rows)
}
