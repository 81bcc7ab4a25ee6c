package client

import "slices"

// InformerState is the state of an informer that runs, for metrics.
type InformerState struct {
	Resource string
	Items    int  // see [Lister.Len]
	Stale    bool // see [Lister.Stale]
	Invalid  int  // objects that cannot be decoded
	// Queue is the number of changes that handlers have not accepted yet. It counts those that wait, and
	// those that failed, of all handlers.
	Queue int
}

// informerDescriber is an informer of any type.
type informerDescriber interface{ describe() InformerState }

// Informers returns the states of the informers that run, in the order in which they were started.
func (c *Client) Informers() []InformerState {
	c.mu.Lock()
	running := slices.Clone(c.informers)
	c.mu.Unlock()
	states := make([]InformerState, 0, len(running))
	for _, i := range running {
		states = append(states, i.describe())
	}
	return states
}

// list adds an informer to those that run, until the caller calls unlist.
func (c *Client) list(i informerDescriber) (unlist func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.informers = append(c.informers, i)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.informers = slices.DeleteFunc(c.informers, func(other informerDescriber) bool { return other == i })
	}
}

// describe implements informerDescriber.
func (i *Informer[T]) describe() InformerState {
	s := InformerState{Resource: i.resource.name, Items: i.Lister().Len(), Stale: i.Lister().Stale()}
	i.mu.Lock()
	defer i.mu.Unlock()
	s.Invalid = len(i.invalid)
	for _, l := range i.handlers {
		s.Queue += l.pending()
	}
	return s
}

// pending returns the number of changes that the handler has not accepted yet.
func (l *handlerLoop[T]) pending() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.failures) + l.queue.len()
	if l.step != nil {
		n += l.step.len() - int(l.offered.Load())
	}
	return n
}
