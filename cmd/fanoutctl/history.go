package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// change is the author of a write, as shown in JSON and YAML.
type change struct {
	Author  string    `json:"author"`
	Time    time.Time `json:"time"`
	Message string    `json:"message,omitempty"`
}

// historyRecord is an entry of a history, as shown in JSON and YAML.
type historyRecord struct {
	Kind     string `json:"kind"` // put, delete, expired, gap or earlier
	Key      string `json:"key"`
	Revision int64  `json:"revision,omitempty"`
	*change
	ReplacedRevision  int64              `json:"replacedRevision"`
	TransactionWrites int                `json:"transactionWrites,omitempty"`
	HasTTL            bool               `json:"hasTtl,omitempty"`
	Object            *document.Document `json:"object,omitempty"`
}

func historyCommand(t *tool) *cobra.Command {
	var (
		format output.Format
		at     string
		limit  int
		values bool
		follow historyFollow
	)
	cmd := &cobra.Command{
		Use:   "history RESOURCE [KEY | PATH/]",
		Short: "Show who wrote what, when and why",
		Long: `Show the writes to an object, newest first: who wrote, when, and the message. With a path that ends
in a slash, show the writes to the objects below it, and without one those to the whole
resource. The server keeps a history only if the resource is configured so.

A gap is where another program wrote the key in etcd. "earlier" is an object that is older
than the history of its key.

With --follow, show the writes that are made from now on, the oldest first, until the command is
stopped. None is missing, however fast they come and however long the server is away, as long
as the history still has them. --position-file saves how far the command has come, so that the
next one continues there: after a crash, some writes may be shown again. This requires the
right "watch" as well.

The history requires the right "history".`,
		Example: `  # Show the history of an object
  fanoutctl history config shop/limits

  # Show the last ten writes below shop, with their values
  fanoutctl history config shop/ --limit 10 --values

  # Show what was written up to yesterday
  fanoutctl history config --at 24h

  # Keep it for an audit
  fanoutctl history config -o jsonl --values >history.jsonl

  # Append every write to an audit log
  fanoutctl history config --follow -o jsonl --position-file audit.position >>audit.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			opts, err := parseAt(at)
			if err == nil {
				err = follow.check(at != "" || limit > 0)
			}
			if err != nil {
				return err
			}
			if values {
				opts = append(opts, client.HistoryValues())
			}
			if limit > 0 {
				opts = append(opts, client.HistoryPageSize(limit))
			}
			ctx, cancel := t.withTimeout(cmd.Context(), 0)
			defer cancel()
			shown := t.historyList(format, values)
			if follow.on {
				return t.followHistory(ctx, args, &follow, &shown, opts)
			}
			return t.showHistory(ctx, args, &shown, opts, limit)
		},
	}
	cmd.AddCommand(historyPurgeCommand(t))
	formatFlag(cmd, &format, output.Table)
	atFlag(cmd, &at)
	cmd.Flags().IntVar(&limit, "limit", 0, "maximum `number` of entries to show (0: no limit)")
	cmd.Flags().BoolVar(&values, "values", false, "show what was written")
	cmd.Flags().BoolVarP(&follow.on, "follow", "f", false, "show the writes that are made from now on, the oldest first")
	cmd.Flags().StringVar(&follow.from, "from", "", "with --follow, show the writes after this `position`: a revision, or EPOCH:REVISION")
	cmd.Flags().StringVar(&follow.file, "position-file", "", "with --follow, save the position in this `file`, and continue there")
	return cmd
}

// atFlag adds the flag --at, whose value parseAt parses.
func atFlag(cmd *cobra.Command, at *string) {
	cmd.Flags().StringVar(at, "at", "", "a `revision`, a time such as 2026-11-27T15:04:05Z, or how long ago, such as 24h")
}

// parseAt returns the options of a history that begins at a revision or a time; none for an empty text.
func parseAt(at string) ([]client.HistoryOption, error) {
	if at == "" {
		return nil, nil
	}
	revision, moment, err := parseMoment(at)
	if err != nil {
		return nil, err
	}
	if revision > 0 {
		return []client.HistoryOption{client.HistoryUpTo(revision)}, nil
	}
	return []client.HistoryOption{client.HistoryAt(moment)}, nil
}

// parseMoment returns a revision, or a time if the revision is 0.
func parseMoment(text string) (revision int64, moment time.Time, err error) {
	if revision, err := strconv.ParseInt(text, 10, 64); err == nil && revision > 0 {
		return revision, time.Time{}, nil
	}
	if ago, err := time.ParseDuration(text); err == nil && ago >= 0 {
		return 0, time.Now().Add(-ago), nil
	}
	if moment, err := time.Parse(time.RFC3339, text); err == nil {
		return 0, moment, nil
	}
	return 0, time.Time{}, usagef("%q is neither a revision nor a time (want for example 4711, 2026-11-27T15:04:05Z or 24h for a day ago)", text)
}

// historyScope returns the objects that an argument names: one, those below a path, or all.
func historyScope(args []string) client.Scope {
	if key, ok := keyArgument(args); ok {
		return client.Key(key)
	}
	if len(args) < 2 || strings.Trim(args[1], "/") == "" {
		return nil
	}
	return client.Prefix(strings.Trim(args[1], "/"))
}

// keyArgument returns the key of an argument that is a key, or a path that ends in a slash.
func keyArgument(args []string) (key string, ok bool) {
	if len(args) < 2 || args[1] == "" || strings.HasSuffix(args[1], "/") {
		return "", false
	}
	return keyOf(args[1]), true
}

// historyList returns what prints entries.
func (t *tool) historyList(format output.Format, values bool) output.List[*client.HistoryEntry] {
	return output.List[*client.HistoryEntry]{
		Printer: t.printer(format), Columns: historyColumns(format == output.Wide, values),
		Key: func(e *client.HistoryEntry) string { return e.Key },
		Value: func(e *client.HistoryEntry) []byte {
			if e.Object == nil {
				return nil
			}
			return e.Object.Value
		},
		Document: func(e *client.HistoryEntry) any { return recordOf(e) },
		Array:    true,
	}
}

func (t *tool) showHistory(ctx context.Context, args []string, shown *output.List[*client.HistoryEntry], opts []client.HistoryOption, limit int) error {
	n := 0
	for e, err := range t.client.Resource(args[0]).JSONValues().History(ctx, historyScope(args), opts...) {
		if err != nil {
			return err
		}
		if err := shown.Add(e); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	if key, ok := keyArgument(args); ok && n == 0 {
		if err := t.checkKnown(ctx, t.client.Resource(args[0]), key); err != nil {
			return err
		}
	}
	if n == 0 && (shown.Format == output.Table || shown.Format == output.Wide) {
		begins, err := historyBegins(ctx, t.client.Resource(args[0]), historyScope(args), args[len(args)-1])
		if err != nil {
			return err
		}
		fmt.Fprintf(t.stderr, "No history found: %s.\n", begins)
	}
	return shown.Close()
}

var historyKinds = map[client.HistoryKind]string{
	client.HistoryPut: "put", client.HistoryDelete: "delete", client.HistoryExpired: "expired", client.HistoryGap: "gap", client.HistoryEarlier: "earlier",
}

func recordOf(e *client.HistoryEntry) historyRecord {
	r := historyRecord{
		Kind: historyKinds[e.Kind], Key: e.Key, Revision: e.Revision, ReplacedRevision: e.ReplacedRevision, TransactionWrites: e.TransactionWrites, HasTTL: e.HasTTL,
	}
	if !e.Change.Time.IsZero() {
		r.change = &change{Author: e.Change.Author, Time: e.Change.Time, Message: e.Change.Message}
	}
	if e.Object != nil {
		r.Object = new(document.Of(e.Object))
	}
	return r
}

func historyColumns(wide, values bool) []output.Column[*client.HistoryEntry] {
	columns := []output.Column[*client.HistoryEntry]{
		{Title: "REVISION", Right: true, Cell: func(e *client.HistoryEntry) string {
			if e.Revision == 0 {
				return "-"
			}
			return strconv.FormatInt(e.Revision, 10)
		}},
		{Title: "TIME", Cell: func(e *client.HistoryEntry) string {
			if e.Change.Time.IsZero() {
				return "-"
			}
			return e.Change.Time.UTC().Format("2006-01-02T15:04:05Z")
		}},
		{Title: "AUTHOR", Cell: func(e *client.HistoryEntry) string {
			if e.Change.Time.IsZero() {
				return "-"
			}
			return author(e.Change.Author)
		}},
		{Title: "KIND", Cell: func(e *client.HistoryEntry) string { return historyKinds[e.Kind] }},
		{Title: "KEY", Cell: func(e *client.HistoryEntry) string { return e.Key }},
	}
	if wide {
		columns = append(columns, output.Column[*client.HistoryEntry]{Title: "WRITES", Right: true, Cell: func(e *client.HistoryEntry) string {
			return strconv.Itoa(e.TransactionWrites)
		}})
	}
	columns = append(columns, output.Column[*client.HistoryEntry]{Title: "MESSAGE", Cell: func(e *client.HistoryEntry) string { return cmp.Or(e.Change.Message, "-") }})
	if !values {
		return columns
	}
	return append(columns, output.Column[*client.HistoryEntry]{Title: "VALUE", Cell: func(e *client.HistoryEntry) string {
		if e.Object == nil {
			return "-"
		}
		return output.Preview(e.Object)
	}})
}

// author returns the name of a writer.
func author(name string) string { return cmp.Or(name, "anonymous") }

// isDenied reports whether the caller lacks a right.
func isDenied(err error) bool {
	e, ok := errors.AsType[*client.Error](err)
	return ok && (e.Code.String() == "PermissionDenied" || e.Code.String() == "Unauthenticated")
}
