package registry

import "sync/atomic"

// resourceCount has the numbers of watches of a resource that have begun. With a million watches,
// looking at each of them would take long.
type resourceCount struct {
	watches atomic.Int64 // that have not ended
	failing atomic.Int64 // those of them whose last report has an error

	// These never decrease.

	begun          atomic.Int64
	reportedErrors atomic.Int64 // errors that clients have reported, without repetitions
}

// begin counts a watch that has begun.
func (c *resourceCount) begin() {
	c.watches.Add(1)
	c.begun.Add(1)
}

// end counts a watch that has ended. The argument failing reports whether its last report had an
// error.
func (c *resourceCount) end(failing bool) {
	c.watches.Add(-1)
	if failing {
		c.failing.Add(-1)
	}
}

// report counts a report: whether the watch has failed before and fails now, and whether the report
// has an error that the one before did not have.
func (c *resourceCount) report(before, now, newFailure bool) {
	if before {
		c.failing.Add(-1)
	}
	if now {
		c.failing.Add(1)
	}
	if newFailure {
		c.reportedErrors.Add(1)
	}
}

// CountByResource returns the number of watches of each resource that have begun.
func (r *Registry) CountByResource() map[string]int {
	watches := map[string]int{}
	for resource, c := range r.counts {
		watches[resource] = int(c.watches.Load())
	}
	return watches
}

// countAll returns the number of watches of all resources that have begun.
func (r *Registry) countAll() (watches int) {
	for _, c := range r.counts {
		watches += int(c.watches.Load())
	}
	return watches
}

// CountFailing returns the number of watches of some resources whose last report has an error.
func (r *Registry) CountFailing(resources ...string) (failing int64) {
	for _, resource := range resources {
		failing += r.counts[resource].failing.Load()
	}
	return failing
}
