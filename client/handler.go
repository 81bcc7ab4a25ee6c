package client

import "fmt"

// Handler receives the changes of an informer. Any of its functions may be nil. One
// goroutine calls the functions of all handlers, one at a time. While one of them
// runs, the informer reads nothing from the server.
//
// For each key a handler gets Add, then any number of Update, then Delete, and so on
// again. It never gets Update or Delete for an item that it was not given, nor Add for
// one that it has. Changes come in order of their revisions; those that replace the
// state after a long interruption come with the deletions first, then in order of keys.
// Revisions grow, except where a new epoch begins. Several changes of one object may
// come as one Update after an interruption, or if the servers have lost changes
// ([Update.Delta]). A change that was undone meanwhile does not come at all. An unchanged object is never reported, except by [Resync].
//
// When a handler is called, the [Lister] already has the new state.
type Handler[T any] struct {
	// Add is called when an item comes into view.
	Add func(Item[T])
	// Update is called when an item has changed. Calls that [Resync] causes have the
	// same item twice.
	Update func(old, item Item[T])
	// Delete is called when an item has left the view, with its last content.
	Delete func(old Item[T])
	// Error is called for an object that cannot be decoded. The informer keeps the
	// last version that was decoded, if there is one, with Invalid set. Without an
	// object, the error is about the file of [LastKnownGood].
	Error func(*Object, error)
}

// change is a change of one key, from its old entry to its new one; nil stands for no
// entry.
type change[T any] struct{ old, new *entry[T] }

// notify calls the function of the handler that a change asks for, if any.
func (h *Handler[T]) notify(c change[T]) {
	before, after := c.old != nil && c.old.decoded, c.new != nil && c.new.decoded
	switch {
	case before && after && c.old.item.Object == c.new.item.Object:
		// The newer version cannot be decoded, so the item is still the old one.
	case !before && after && h.Add != nil:
		h.Add(c.new.item)
	case before && after && h.Update != nil:
		h.Update(c.old.item, c.new.item)
	case before && !after && h.Delete != nil:
		h.Delete(c.old.item)
	}
}

// AddHandler adds a handler. A handler that is added after the state is known first
// gets an Add for each item of the current state, then all later changes.
func (i *Informer[T]) AddHandler(h Handler[T]) {
	i.mu.Lock()
	i.newHandlers = append(i.newHandlers, &h)
	i.mu.Unlock()
	select {
	case i.handlerAdded <- struct{}{}:
	default:
	}
}

// startHandlers gives the current state to handlers that were added.
func (i *Informer[T]) startHandlers() {
	i.mu.Lock()
	added := i.newHandlers
	i.newHandlers = nil
	i.mu.Unlock()
	for _, h := range added {
		i.current.Load().entries.Scan(func(_ string, e *entry[T]) bool {
			if e.decoded && h.Add != nil {
				h.Add(e.item)
			}
			return true
		})
	}
	i.handlers = append(i.handlers, added...)
}

// notify passes changes to all handlers.
func (i *Informer[T]) notify(changes []change[T]) {
	for _, c := range changes {
		for _, h := range i.handlers {
			h.notify(c)
		}
	}
}

// resyncHandlers passes every item to all handlers, as an Update without a change.
func (i *Informer[T]) resyncHandlers() {
	i.current.Load().entries.Scan(func(_ string, e *entry[T]) bool {
		for _, h := range i.handlers {
			if e.decoded && h.Update != nil {
				h.Update(e.item, e.item)
			}
		}
		return true
	})
}

// reportObject reports an object that cannot be decoded.
func (i *Informer[T]) reportObject(o *Object, err error) {
	i.resource.client.log.Warn("cannot decode object",
		"resource", i.resource.name, "key", o.Key, "revision", o.ModRevision, "error", err)
	i.report(o, fmt.Errorf("object %q at revision %d: %w", o.Key, o.ModRevision, err))
}

// reportFile reports a file of the last known good state that cannot be used.
func (i *Informer[T]) reportFile(err error) {
	i.resource.client.log.Warn("last known good state unavailable", "resource", i.resource.name, "error", err)
	i.report(nil, err)
}

func (i *Informer[T]) report(o *Object, err error) {
	for _, h := range i.handlers {
		if h.Error != nil {
			h.Error(o, err)
		}
	}
}
