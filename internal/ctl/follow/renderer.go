package follow

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
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
	// Policy handles failures of Changed. A change does not wait for a retry: it may correct what has
	// failed. A file that cannot be rendered ends Run only in
	// the first round. Later the file stays as it is: if its template fails, until the
	// objects change again; if it cannot be written, until a retry succeeds.
	Policy Policy
	Report func(error) // reports failures that do not end Run
	// Delay is how long changes are collected before the files are rendered.
	Delay time.Duration
	// Once ends Run after the first round.
	Once bool
	// Failures are the objects that have changed since all files were rendered and Changed succeeded. They are
	// empty while nothing fails.
	Failures client.Failures

	changes map[string]client.Event // the latest one of each of these objects, also before the attempt
	at      client.Position         // of the objects
}

// Run renders until the watch ends. It renders the initial state as soon as it is complete.
// After that, the first change starts the delay. It never renders half of a new state.
func (r *Renderer) Run(ctx context.Context, updates Updates) error {
	watch := read(ctx, updates)
	defer watch.stop()

	r.changes = map[string]client.Event{}
	var objects client.Copy
	dirty := false
	delay := time.NewTimer(0)
	defer delay.Stop()
	var due <-chan time.Time           // delay.C while changes are collected, or a retry is due
	delays, retrying := retries, false // retrying: a retry is due
	for first := true; ; {
		select {
		case u, ok := <-watch.received:
			switch {
			case !ok:
				return context.Cause(ctx)
			case u.err != nil:
				return u.err
			}
			changes := objects.Apply(u.Update)
			for _, e := range changes {
				r.changes[e.Object.Key] = e
			}
			if objects.Complete() {
				r.at = u.Position
			}
			changed := len(changes) > 0
			dirty = changed || dirty
			switch {
			case first && objects.Synced() && objects.Complete():
				first, dirty = false, false
				again, err := r.round(ctx, &objects, true)
				if err != nil || r.Once && !again {
					return err
				}
				if dirty, retrying = again, again; again {
					delay.Reset(delays.Next())
					due = delay.C
				}
			case !first && dirty && objects.Complete() && (due == nil || changed && retrying):
				delay.Reset(r.Delay)
				due, delays, retrying = delay.C, retries, false
			case !first && !dirty && objects.Complete():
				r.Failures.Applied(r.at) // nothing is to be rendered
			}
		case <-due:
			due = nil
			if !objects.Complete() {
				continue // the end of the new state starts the delay again
			}
			again, err := r.round(ctx, &objects, false)
			if err != nil || r.Once && !again {
				return err
			}
			if dirty, retrying = again, again; !again {
				delays = retries
				continue
			}
			delay.Reset(delays.Next())
			due = delay.C
		}
	}
}

// round renders all files, calls Changed, and notes for the reports of the watch whether that has failed. It returns
// whether it should be tried again with the same objects, or the error that ends Run.
func (r *Renderer) round(ctx context.Context, objects *client.Copy, first bool) (again bool, err error) {
	again, ends, failed := r.render(ctx, objects, first)
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case failed == nil:
		clear(r.changes)
		r.Failures.Clear()
		r.Failures.Applied(r.at)
		return false, nil
	case ends && r.Once:
		return false, failed
	}
	r.Failures.Add(failed, r.at, slices.Collect(maps.Values(r.changes))...)
	if ends {
		announce(ctx, &r.Failures)
		return false, failed
	}
	r.Failures.Applied(r.at)
	return again, nil
}

// render renders all files and calls Changed for those that have changed. It returns the first failure, and for it whether
// another attempt with the same objects may succeed, and whether it ends Run.
func (r *Renderer) render(ctx context.Context, objects *client.Copy, first bool) (again, ends bool, failed error) {
	data := newTemplateData(r.Resource, slices.Collect(objects.Objects()))
	var changed []*TemplateFile
	for _, f := range r.Files {
		f.Notify = r.Changed != nil
		ok, err := f.Render(data)
		if err != nil {
			if first || r.Once {
				return false, true, err
			}
			r.Report(err)
			failed = cmp.Or(failed, err)
			again = again || !errors.As(err, new(template.ExecError)) // otherwise it fails until the objects change
		}
		if ok {
			changed = append(changed, f)
		}
	}
	if len(changed) == 0 || r.Changed == nil {
		return again, false, failed
	}
	err := r.notify(ctx, changed)
	switch {
	case err == nil || ctx.Err() != nil:
		return again, false, failed
	case r.Policy == Stop:
		return false, true, err
	}
	r.Report(err)
	return again || r.Policy == Retry, false, cmp.Or(failed, err)
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
