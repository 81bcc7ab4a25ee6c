package client

import "sync"

// Failures are the objects that the caller of a watch cannot apply. With the option [ReportFailures], the client reports
// them to the server, as an informer does with errors of its handlers, so that [Client.Wait] refuses at once instead of
// waiting for them. The zero value is ready to use, by one watch. Its methods may be called by several goroutines.
type Failures struct {
	mu       sync.Mutex
	failed   failures
	applied  Position // what the caller has applied of the watch, or left failed
	tried    Position // ahead of applied while the caller tries again
	reporter *reporter
}

// ReportFailures makes the watch report failures.
func ReportFailures(f *Failures) WatchOption {
	return watchOption(func(c *watchConfig) { c.failures = f })
}

// Add notes that the object of an event was not applied. It counts until [Failures.Remove], also after the caller has asked
// for the next update. Tried is up to where everything was applied or has failed, if that is further than the last
// update that the caller has applied: the zero value says that it is not.
func (f *Failures) Add(e Event, err error, tried Position) {
	f.mu.Lock()
	if f.failed == nil {
		f.failed = failures{}
	}
	failed := failure{before: f.applied, err: err}
	if e.Type != Deleted {
		failed.revision = e.Revision
	}
	f.failed.add(e.Object.Key, failed)
	if tried.isAfter(f.tried) {
		f.tried = tried
	}
	f.mu.Unlock()
	f.wake()
}

// Remove notes that an object was applied. It does nothing if the object has not failed.
func (f *Failures) Remove(key string) {
	f.mu.Lock()
	_, failed := f.failed[key]
	delete(f.failed, key)
	f.mu.Unlock()
	if failed {
		f.wake()
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

// moveTo notes that the caller has handled everything up to a position.
func (f *Failures) moveTo(at Position) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.applied = at
}

// progress returns what the watch reports.
func (f *Failures) progress() progress {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := f.applied
	if at.Revision == 0 {
		return progress{} // the first state is not applied
	}
	if len(f.failed) > 0 && f.tried.Epoch == at.Epoch && f.tried.isAfter(at) {
		at = f.tried
	}
	return f.failed.progress(at)
}
