package watch

import "sync"

// resourceCounts counts the watches of each resource: those of streams, and those with complete
// entries. With a million watches, looking at each of them would take long. Callers may hold other
// locks.
type resourceCounts struct {
	mu sync.Mutex
	of map[string]*resourceCount // guarded by mu
}

// resourceCount has the numbers of watches of a resource.
type resourceCount struct {
	watches int
	failing int64 // those whose last report has an error
}

func newResourceCounts() resourceCounts { return resourceCounts{of: map[string]*resourceCount{}} }

// add counts a watch that has begun.
func (c *resourceCounts) add(resource string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at(resource).watches++
}

// at is called with mu held. It returns the numbers of a resource.
func (c *resourceCounts) at(resource string) *resourceCount {
	n := c.of[resource]
	if n == nil {
		n = &resourceCount{}
		c.of[resource] = n
	}
	return n
}

// remove counts a watch that has ended. The argument failing reports whether its last report had an
// error.
func (c *resourceCounts) remove(resource string, failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.at(resource)
	n.watches--
	if failing {
		n.failing--
	}
}

// noteReport counts a watch as failing, or no longer.
func (c *resourceCounts) noteReport(resource string, failing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if failing {
		c.at(resource).failing++
	} else {
		c.at(resource).failing--
	}
}

// CountByResource returns the number of watches of each resource. It leaves out incomplete
// entries.
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
