package follow

import (
	"context"
	"errors"
	"slices"
	"sync"
	"text/template"
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
	// Policy handles failures of Changed. A file that cannot be rendered ends Run only in
	// the first round. Later the file stays as it is: if its template fails, until the
	// objects change again; if it cannot be written, until a retry succeeds.
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
// After that, the first change starts the delay. It never renders half of a new state.
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

	var objects client.Copy
	dirty := false
	delay := time.NewTimer(0)
	defer delay.Stop()
	var due <-chan time.Time           // delay.C while changes are collected, or a retry is due
	delays, retrying := retries, false // retrying: a retry is due
	for first := true; ; {
		select {
		case u, ok := <-received:
			switch {
			case !ok:
				return context.Cause(ctx)
			case u.err != nil:
				return u.err
			}
			changed := len(objects.Apply(u.Update)) > 0
			dirty = changed || dirty
			switch {
			case first && objects.Synced() && objects.Complete():
				first, dirty = false, false
				if _, err := r.render(ctx, &objects, true); err != nil || r.Once {
					return err
				}
			case !first && dirty && objects.Complete() && (due == nil || changed && retrying):
				delay.Reset(r.Delay)
				due, delays, retrying = delay.C, retries, false
			}
		case <-due:
			due = nil
			if !objects.Complete() {
				continue // the end of the new state starts the delay again
			}
			complete, err := r.render(ctx, &objects, false)
			if err != nil {
				return err
			}
			if dirty, retrying = !complete, !complete; complete {
				delays = retries
				continue
			}
			delay.Reset(delays.Next())
			due = delay.C
		}
	}
}

// render renders all files and calls Changed for those that have changed. It reports whether
// all files are complete. If not, a retry may succeed.
func (r *Renderer) render(ctx context.Context, objects *client.Copy, first bool) (complete bool, err error) {
	data := newTemplateData(r.Resource, slices.Collect(objects.Objects()))
	var changed []*TemplateFile
	complete = true
	for _, f := range r.Files {
		f.Notify = r.Changed != nil
		ok, err := f.Render(data)
		if err != nil {
			if first {
				return false, err
			}
			r.Report(err)
			complete = complete && errors.As(err, new(template.ExecError)) // fails again until the objects change
		}
		if ok {
			changed = append(changed, f)
		}
	}
	if len(changed) == 0 || r.Changed == nil {
		return complete, nil
	}
	return complete, r.Policy.attempt(ctx, r.Report, func() error { return r.notify(ctx, changed) })
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
