package registry

import "sync"

// resourceCounts counts the watches of each resource that have begun. With a million watches, looking
// at each of them would take long. Callers may hold other locks.
type resourceCounts struct {
	mu sync.Mutex
	of map[string]*resourceCount // guarded by mu
}

// resourceCount has the numbers of watches of a resource.
type resourceCount struct {
	watches int   // that have begun and have not ended
	failing int64 // those of them whose last report has an error

	// These never decrease.

	begun          int64
	reportedErrors int64 // errors that clients have reported, without repetitions
}

func newResourceCounts() resourceCounts { return resourceCounts{of: map[string]*resourceCount{}} }

// at is called with mu held. It returns the numbers of a resource.
func (c *resourceCounts) at(resource string) *resourceCount {
	n := c.of[resource]
	if n == nil {
		n = &resourceCount{}
		c.of[resource] = n
	}
	return n
}

// begin counts a watch that has begun.
func (c *resourceCounts) begin(resource string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.at(resource)
	n.watches++
	n.begun++
}

// end counts a watch that has ended. The argument failing reports whether its last report had an
// error.
func (c *resourceCounts) end(resource string, failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.at(resource)
	n.watches--
	if failing {
		n.failing--
	}
}

// report counts a report: whether the watch has failed before and fails now, and whether the report
// has an error that the one before did not have.
func (c *resourceCounts) report(resource string, before, now, newFailure bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.at(resource)
	if before {
		n.failing--
	}
	if now {
		n.failing++
	}
	if newFailure {
		n.reportedErrors++
	}
}

// all returns the number of watches of all resources.
func (c *resourceCounts) all() (watches int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range c.of {
		watches += n.watches
	}
	return watches
}

// totals returns the numbers of a resource that never decrease.
func (c *resourceCounts) totals(resource string) (begun, reportedErrors int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.at(resource)
	return n.begun, n.reportedErrors
}

// CountByResource returns the number of watches of each resource that have begun.
func (r *Registry) CountByResource() map[string]int {
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	watches := map[string]int{}
	for resource, n := range r.counts.of {
		watches[resource] = n.watches
	}
	return watches
}

// CountFailing returns the number of watches of some resources whose last report has an error.
func (r *Registry) CountFailing(resources ...string) (failing int64) {
	r.counts.mu.Lock()
	defer r.counts.mu.Unlock()
	for _, resource := range resources {
		if n := r.counts.of[resource]; n != nil {
			failing += n.failing
		}
	}
	return failing
}
