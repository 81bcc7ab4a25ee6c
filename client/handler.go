package client

// Handler is told what changes. Its functions may be nil. They are called by one
// goroutine, one after the other; while one of them runs, the informer waits, and
// so does in the end the server.
//
// For each key the calls are Add, any number of Update, Delete, and so on again:
// never an Update or Delete of what was not added, nor an Add of what is there. They
// come in the order of the changes. What has not changed is not told, also after
// interruptions; what has changed several times meanwhile is told once. Revisions
// grow, except where a new epoch begins.
//
// When a handler is called, the [Lister] has the new state already.
type Handler[T any] struct {
	// Add is told of an item that came into view.
	Add func(Item[T])
	// Update is told of an item that has changed; with [Resync], old and item are
	// the same.
	Update func(old, item Item[T])
	// Delete is told of an item that left the view, as it was last.
	Delete func(old Item[T])
	// Error is told of an object that could not be decoded: the informer keeps the
	// last version that could, if there was one, with Invalid set. Without an object
	// it is told of a file that could not be used or written ([LastKnownGood]).
	Error func(*Object, error)
}

// change is what became of a key.
type change[T any] struct{ old, new *entry[T] }

func (c change[T]) key() string {
	if c.new != nil {
		return c.new.newest.Key
	}
	return c.old.newest.Key
}

// tell tells the handler.
func (h *Handler[T]) tell(c change[T]) {
	was, is := c.old != nil && c.old.good, c.new != nil && c.new.good
	switch {
	case was && is && c.old.item.Object == c.new.item.Object:
		// A newer version cannot be decoded.
	case !was && is && h.Add != nil:
		h.Add(c.new.item)
	case was && is && h.Update != nil:
		h.Update(c.old.item, c.new.item)
	case was && !is && h.Delete != nil:
		h.Delete(c.old.item)
	}
}
