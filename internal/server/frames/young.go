package frames

import (
	"cmp"
	"slices"
	"time"
)

// youngFor is how long a stream is young. A client may reset older streams as it likes, for
// example thousands of watches at once, or requests whose deadline has passed. The rate of
// opening bounds these.
const youngFor = 100 * time.Millisecond

// youngStreams are the streams that the client has just opened and the server has not answered
// yet. Stream ids only increase, so the streams are in the order of their ids and of their age.
type youngStreams []youngStream

type youngStream struct {
	id     uint32
	opened time.Time
	client string // the name of the client that has authenticated; empty: none
}

// open adds a stream.
func (y *youngStreams) open(id uint32, now time.Time) {
	*y = append(*y, youngStream{id: id, opened: now})
}

// dropOld drops the streams that are no longer young.
func (y *youngStreams) dropOld(now time.Time) {
	old := 0
	for old < len(*y) && !(*y)[old].isYoung(now) {
		old++
	}
	if *y = slices.Delete(*y, 0, old); len(*y) == 0 {
		*y = nil // most connections open no more streams for a long time
	}
}

// find returns a stream, or nil.
func (y youngStreams) find(id uint32) *youngStream {
	i, ok := y.search(id)
	if !ok {
		return nil
	}
	return &y[i]
}

// remove removes a stream. It returns the name of the client, and whether the stream was young.
func (y *youngStreams) remove(id uint32, now time.Time) (client string, young bool) {
	i, ok := y.search(id)
	if !ok {
		return "", false
	}
	s := (*y)[i]
	*y = slices.Delete(*y, i, i+1)
	return s.client, s.isYoung(now)
}

func (y youngStreams) search(id uint32) (i int, ok bool) {
	return slices.BinarySearchFunc(y, id, func(s youngStream, id uint32) int { return cmp.Compare(s.id, id) })
}

func (s *youngStream) isYoung(now time.Time) bool { return now.Sub(s.opened) < youngFor }
