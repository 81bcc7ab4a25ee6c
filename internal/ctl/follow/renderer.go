package follow

import (
	"context"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Renderer keeps files up to date from templates.
type Renderer struct {
	Resource string
	Files    []*TemplateFile
	// Changed is called after files have been written; may be nil. If it fails, or the
	// process ends before it is called, the next process calls it for the same files.
	Changed func(ctx context.Context, files []string) error
	// Policy handles failures of Changed. A template that fails ends Run only in the
	// first round; later the file stays as it is until the objects change again.
	Policy Policy
	Report func(error) // reports failures that do not end Run
	// Delay is how long changes are collected before the files are rendered.
	Delay time.Duration
	// Once ends Run after the first round.
	Once bool
}

// update is an element of a [Stream].
type update struct {
	*client.Update
	err error
}

// Run renders until the watch ends. It renders the initial state as soon as it is complete.
// After that, the first change starts the delay. It never renders the middle of a
// transaction.
func (r *Renderer) Run(ctx context.Context, updates Updates) error {
	ctx, cancel := context.WithCancel(ctx)
	var reader sync.WaitGroup
	defer reader.Wait()
	defer cancel()
	received := make(chan update)
	reader.Go(func() {
		defer close(received)
		for u, err := range updates(ctx) {
			select {
			case <-ctx.Done():
				return
			case received <- update{u, err}:
			}
		}
	})

	var m mirror
	dirty := false
	delay := time.NewTimer(0)
	defer delay.Stop()
	var due <-chan time.Time // delay.C while changes are collected
	for first := true; ; {
		select {
		case u, ok := <-received:
			switch {
			case !ok:
				return context.Cause(ctx)
			case u.err != nil:
				return u.err
			}
			dirty = len(m.Apply(u.Update)) > 0 || dirty
			switch {
			case first && m.Synced() && m.AtRevision():
				first, dirty = false, false
				if err := r.render(ctx, &m, true); err != nil || r.Once {
					return err
				}
			case !first && dirty && m.AtRevision() && due == nil:
				delay.Reset(r.Delay)
				due = delay.C
			}
		case <-due:
			due = nil
			if !m.AtRevision() {
				continue // the rest of the transaction starts the delay again
			}
			dirty = false
			if err := r.render(ctx, &m, false); err != nil {
				return err
			}
		}
	}
}

// render renders all files and calls Changed for those that have changed.
func (r *Renderer) render(ctx context.Context, m *mirror, first bool) error {
	data := newTemplateData(r.Resource, m.Objects())
	var changed []*TemplateFile
	for _, f := range r.Files {
		f.Notify = r.Changed != nil
		ok, err := f.Render(data)
		if err != nil {
			if first {
				return err
			}
			r.Report(err)
		}
		if ok {
			changed = append(changed, f)
		}
	}
	if len(changed) == 0 || r.Changed == nil {
		return nil
	}
	return r.Policy.attempt(ctx, r.Report, func() error { return r.notify(ctx, changed) })
}

func (r *Renderer) notify(ctx context.Context, changed []*TemplateFile) error {
	var paths []string
	for _, f := range changed {
		paths = append(paths, f.Path)
	}
	if err := r.Changed(ctx, paths); err != nil {
		return err
	}
	for _, f := range changed {
		if err := f.Notified(); err != nil {
			return err
		}
	}
	return nil
}
