package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/follow"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
	"github.com/fanoutd/fanoutd/internal/ctl/past"
	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
)

// historyFollow are the flags of history --follow.
type historyFollow struct {
	on   bool
	from string // a position
	file string
}

// check returns a usage error if the flags do not fit together. Others says whether flags are set that choose older
// entries.
func (h *historyFollow) check(others bool) error {
	switch {
	case !h.on && h.from+h.file != "":
		return usagef("--from and --position-file require --follow")
	case h.on && others:
		return usagef("--follow cannot be combined with --at or --limit")
	case h.from != "" && h.file != "":
		return usagef("--from and --position-file are mutually exclusive")
	}
	return nil
}

// followHistory prints entries as they are added, the oldest first, until the command is stopped.
func (t *tool) followHistory(ctx context.Context, args []string, h *historyFollow, shown *output.List[*client.HistoryEntry], opts []client.HistoryOption) (ended error) {
	r := t.client.Resource(args[0]).JSONValues()
	shown.Array = false // it has no end
	f := past.Follower{
		Resource: r, Scope: historyScope(args), Options: opts, Show: shown.Add,
		Watch:       []client.WatchOption{client.OnInterruption(t.reportInterruptions(ctx, args[0]))},
		Interrupted: t.reportInterruptions(ctx, args[0]),
	}
	save := func(client.Position) error { return nil }
	switch {
	case h.from != "":
		position, err := t.parsePosition(ctx, r, h.from)
		if err != nil {
			return err
		}
		f.After = position
	case h.file != "":
		file := &follow.PositionFile{Path: h.file, WatchSpec: historySpec(args)}
		position, err := file.Load()
		if err != nil {
			return inputError(err)
		}
		f.After = position
		save = func(p client.Position) error { return file.Save(p, false) }
		defer func() {
			if err := file.Close(); ended == nil {
				ended = err
			}
		}()
	}
	begun := false
	f.Reached = func(p client.Position) error {
		begun, t.interruption = true, nil
		if err := errors.Join(shown.Close(), t.out.Flush()); err != nil {
			return err
		}
		return save(p)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stop, err := pipe.OnClosed(t.stdout, func() { cancel(errPipeClosed) })
	if err != nil {
		return err
	}
	defer stop()
	err = f.Run(ctx)
	switch cause := context.Cause(ctx); {
	case pipe.IsClosed(err) || errors.Is(cause, errPipeClosed):
		t.out.Reset(io.Discard)
		return nil
	case errors.Is(err, past.ErrEpoch):
		return exitError{exitNotFound, fmt.Errorf("%w: what was written meanwhile cannot be told from what was shown; see \"fanoutctl history %s\", and follow again from now", err, args[0])}
	case begun && cause != nil && (errors.Is(err, cause) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)):
		return nil // stopped
	}
	return err
}

// historySpec identifies a followed history in a position file.
func historySpec(args []string) follow.WatchSpec {
	spec := follow.WatchSpec{Resource: args[0] + " history"}
	if len(args) > 1 {
		if path := strings.Trim(args[1], "/"); strings.HasSuffix(args[1], "/") {
			spec.Prefix = path
		} else {
			spec.Key = keyOf(args[1])
		}
	}
	return spec
}
