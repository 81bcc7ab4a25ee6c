package follow

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Renderer keeps files up to date.
type Renderer struct {
	Resource string
	Files    []*TemplateFile
	// Changed is called when at least one of the files was written: to tell those
	// who read them. Where it has failed, or was not reached, it is called for the
	// same files the next time, even by another process. May be nil.
	Changed func(ctx context.Context, files []string) error
	// Policy is for failures of Changed. Templates that fail end only the first
	// round: later the file stays as it is until the objects change again.
	Policy Policy
	Report func(error) // of failures that do not end it
	// Delay is for how long changes are collected before the files are rendered.
	Delay time.Duration
	// Once ends it when the files have been rendered for the first time.
	Once bool
}

// told is what the goroutine that reads the watch passes on.
type told struct {
	update *client.Update
	err    error
}

// Run renders until the watch ends. Files are not touched before the state is
// complete. The first state is rendered at once; after it the first change of a
// series begins the delay.
func (r *Renderer) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	news := make(chan told)
	reader.Go(func() {
		defer close(news)
		for u, err := range updates(ctx) {
			select {
			case <-ctx.Done():
				return
			case news <- told{u, err}:
			}
		}
	})

	var v mirror
	dirty := false
	delay := time.NewTimer(0)
	defer delay.Stop()
	var due <-chan time.Time // that of delay, while changes are collected
	for first := true; ; {
		select {
		case n, ok := <-news:
			switch {
			case !ok:
				return context.Cause(ctx)
			case n.err != nil:
				return n.err
			}
			dirty = len(v.Apply(n.update)) > 0 || dirty
			switch {
			case first && v.Synced() && v.AtPoint():
				first, dirty = false, false
				if err := r.render(ctx, &v, true); err != nil || r.Once {
					return err
				}
			case !first && dirty && v.AtPoint() && due == nil:
				delay.Reset(r.Delay)
				due = delay.C
			}
		case <-due:
			due = nil
			if !v.AtPoint() {
				continue // what completes it is about to come
			}
			dirty = false
			if err := r.render(ctx, &v, false); err != nil {
				return err
			}
		}
	}
}

func (r *Renderer) render(ctx context.Context, v *mirror, first bool) error {
	data := newTemplateData(r.Resource, v.Objects())
	var written []*TemplateFile
	for _, f := range r.Files {
		f.Notifies = r.Changed != nil
		changed, err := f.Render(data)
		if err != nil {
			if first {
				return err
			}
			r.Report(err)
		}
		if changed {
			written = append(written, f)
		}
	}
	if len(written) == 0 || r.Changed == nil {
		return nil
	}
	return r.Policy.attempt(ctx, r.Report, func() error { return r.tell(ctx, written) })
}

func (r *Renderer) tell(ctx context.Context, written []*TemplateFile) error {
	var paths []string
	for _, f := range written {
		paths = append(paths, f.Path)
	}
	if err := r.Changed(ctx, paths); err != nil {
		return err
	}
	for _, f := range written {
		if err := f.Notified(); err != nil {
			return err
		}
	}
	return nil
}
