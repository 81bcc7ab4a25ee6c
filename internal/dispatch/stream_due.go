package dispatch

import (
	"container/heap"
	"time"
)

// due is what a stream has to do at a time: end a watch, or go on with a cursor. A function would say
// the same, but cost an allocation for each watch whose events wait for a batch delay.
type due struct {
	at     time.Time
	place  *int32       // where the place in the heap is recorded; 0: not in the heap
	watch  *StreamWatch // nil: see cursor
	ending *Ending      // of the watch
	cursor *cursor      // its events have waited, or its watches have waited to share another one
}

func (s *Stream) do(d due) {
	switch c := d.cursor; {
	case d.watch != nil:
		s.endNow(d.watch, d.ending)
	case d.place == &c.delayed:
		s.candidates = append(s.candidates, c)
	default:
		c.mark()
		c.share()
	}
}

// dueHeap has what is due, the next one first. Each watch and each cursor knows its places, so that
// it leaves the heap when it ends, however late it was due. It implements [heap.Interface].
type dueHeap []due

// add adds something that is due. It does not call [heap.Push], which would allocate.
func (h *dueHeap) add(d due) {
	*h = append(*h, d)
	last := len(*h) - 1
	h.place(last)
	heap.Fix(h, last)
}

// remove removes what is at a place. Place 0 has nothing.
func (h *dueHeap) remove(place int32) {
	if place > 0 {
		heap.Remove(h, int(place-1))
	}
}

// place records the place of what is at an index. Places count from 1.
func (h dueHeap) place(i int) { *h[i].place = int32(i + 1) }

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

// Push implements [heap.Interface]. Nobody calls it; see add.
func (h *dueHeap) Push(any) { panic("a heap of times has no Push") }

// Pop implements [heap.Interface]. It drops the last element.
func (h *dueHeap) Pop() any {
	last := len(*h) - 1
	*(*h)[last].place = 0
	(*h)[last] = due{}
	if *h = (*h)[:last]; last == 0 {
		*h = nil // the memory of what many watches needed once
	}
	return nil
}
