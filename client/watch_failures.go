package client

import (
	"context"
	"sync"
)

// Failures are the objects that the caller of a watch cannot apply. With the option [ReportFailures], the client reports
// them to the server, as an informer does with errors of its handlers, so that [Client.Wait] refuses at once instead of
// waiting for them. The zero value is ready to use, by one watch. Its methods may be called by several goroutines.
type Failures struct {
	mu       sync.Mutex
	failed   failures
	applied  Position // what the caller has applied of the watch, or left failed
	tried    Position // ahead of applied while the caller tries again
	deferred bool     // the caller says with Applied what it has applied
	reporter *reporter

	changes int           // of failed so far
	sent    int           // the changes that the latest report includes
	news    chan struct{} // closed when sent grows; nil: no caller waits
}

// ReportFailures makes the watch report failures.
func ReportFailures(f *Failures) WatchOption {
	return watchOption(func(c *watchConfig) { c.failures = f })
}

// Add notes that the objects of some events were not applied. They count until [Failures.Remove] or [Failures.Clear],
// also after the caller has asked for the next update. Tried is up to where everything was applied or has failed, if that
// is further than what the caller has applied: the zero value says that it is not.
func (f *Failures) Add(err error, tried Position, events ...Event) {
	f.mu.Lock()
	if f.failed == nil {
		f.failed = failures{}
	}
	for _, e := range events {
		failed := failure{before: f.applied, err: err}
		if e.Type != Deleted {
			failed.revision = e.Revision
		}
		f.failed.add(e.Object.Key, failed)
	}
	f.changes++
	if tried.isAfter(f.tried) {
		f.tried = tried
	}
	f.mu.Unlock()
	f.wake()
}

// Remove notes that an object was applied. It does nothing if the object has not failed.
func (f *Failures) Remove(key string) {
	f.forget(func() { delete(f.failed, key) })
}

// Clear notes that all objects were applied.
func (f *Failures) Clear() {
	f.forget(func() { clear(f.failed) })
}

// forget removes failures. Only a removal is a change: without one there is nothing to report, and [Failures.Flush] would wait
// for it.
func (f *Failures) forget(remove func()) {
	f.mu.Lock()
	before := len(f.failed)
	remove()
	removed := len(f.failed) < before
	if removed {
		f.changes++
	}
	f.mu.Unlock()
	if removed {
		f.wake()
	}
}

// Defer is for a caller that asks for further updates before it has applied those that it has. The watch then reports as
// applied what [Failures.Applied] says. Call Defer before the watch begins.
func (f *Failures) Defer() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deferred = true
}

// Applied notes that everything up to the position of an update was applied or has failed.
func (f *Failures) Applied(at Position) {
	f.mu.Lock()
	f.applied = at
	f.mu.Unlock()
	f.wake()
}

// Flush waits until the failures are reported; the report may still be on its way to the server. It returns false if ctx ends first, or at once if there is nothing that can
// be reported: no object has failed, or the first state has not arrived completely.
func (f *Failures) Flush(ctx context.Context) bool {
	for {
		f.mu.Lock()
		if f.reporter == nil || f.progressLocked().err == nil {
			f.mu.Unlock()
			return false
		}
		if f.sent == f.changes {
			f.mu.Unlock()
			return true
		}
		if f.news == nil {
			f.news = make(chan struct{})
		}
		news := f.news
		f.mu.Unlock()
		select {
		case <-news:
		case <-ctx.Done():
			return false
		}
	}
}

// noteReport notes what was reported.
func (f *Failures) noteReport(p progress) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if p.changes <= f.sent {
		return
	}
	f.sent = p.changes
	if f.news != nil {
		close(f.news)
		f.news = nil
	}
}

func (f *Failures) wake() {
	f.mu.Lock()
	r := f.reporter
	f.mu.Unlock()
	if r != nil {
		r.wake()
	}
}

// moveTo notes that the caller has handled everything up to a position, if it does not say so itself.
func (f *Failures) moveTo(at Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.deferred {
		f.applied = at
	}
}

// progress returns what the watch reports.
func (f *Failures) progress() progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.progressLocked()
}

func (f *Failures) progressLocked() progress {
	at := f.applied
	if len(f.failed) > 0 && f.tried.isAfter(at) && (at.Revision == 0 || f.tried.Epoch == at.Epoch) {
		at = f.tried
	}
	if at.Revision == 0 {
		return progress{} // the first state is not applied
	}
	p := f.failed.progress(at)
	if f.applied.Revision == 0 {
		p.applied = Position{}
	}
	p.changes = f.changes
	return p
}
