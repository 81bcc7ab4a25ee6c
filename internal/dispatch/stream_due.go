package dispatch

import (
	"container/heap"
	"time"
)

// due is what a stream has to do at a time: to end a watch, or to go on with a cursor whose batch
// delay is over.
type due struct {
	at     time.Time
	watch  *StreamWatch // nil: see cursor
	ending *Ending      // of the watch
	cursor *cursor
}

// dueHeap has what is due, the next one first. Each watch and each cursor knows its place, so that
// it leaves the heap when it ends, however late it was due. It implements [heap.Interface].
type dueHeap []due

// add adds something that is due. It does not call [heap.Push], which would allocate.
func (h *dueHeap) add(d due) {
	h.Push(nil)
	last := len(*h) - 1
	(*h)[last] = d
	h.place(last)
	heap.Fix(h, last)
}

// remove removes what is at a place. Place 0 has nothing.
func (h *dueHeap) remove(place int32) {
	if place > 0 {
		heap.Remove(h, int(place-1))
	}
}

// place records the place of an index in the watch or the cursor that is there. Places count from 1.
func (h dueHeap) place(i int) {
	if d := &h[i]; d.watch != nil {
		d.watch.due = int32(i + 1)
	} else {
		d.cursor.due = int32(i + 1)
	}
}

// Len implements [heap.Interface].
func (h dueHeap) Len() int { return len(h) }

// Less implements [heap.Interface].
func (h dueHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

// Swap implements [heap.Interface].
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h.place(i)
	h.place(j)
}

// Push implements [heap.Interface]. It appends an element that the caller sets.
func (h *dueHeap) Push(any) { *h = append(*h, due{}) }

// Pop implements [heap.Interface]. It drops the last element.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	if d := &(*h)[last]; d.watch != nil {
		d.watch.due = 0
	} else {
		d.cursor.due = 0
	}
	(*h)[last] = due{}
	if *h = (*h)[:last]; last == 0 {
		*h = nil // the memory of what many watches needed once
	}
	return nil
}
