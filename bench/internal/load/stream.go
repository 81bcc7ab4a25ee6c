package load

import (
	"fmt"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
)

// streamReader counts what the watchers of one stream receive.
type streamReader struct {
	counter    *delivery.Counter
	service    service
	group      int // see delivery.Counter
	first, end int // the watchers, as a half-open range

	concerned []int // the watchers of the latest message
}

// stream returns the reader of the stream whose first watcher is given. The end is that of the
// connection's watchers.
func (w *watchers) stream(s service, group, first, end int) *streamReader {
	return &streamReader{counter: w.counter, service: s, group: group, first: first, end: min(first+w.config.PerStream, end)}
}

// receive counts a message and returns its watchers. The result is valid until the next call.
func (r *streamReader) receive(message []byte, at int64) ([]int, error) {
	r.concerned = r.concerned[:0]
	err := r.service.split(message, func(watches []uint64, part []byte) error {
		before := len(r.concerned)
		for _, watch := range watches {
			if watch >= uint64(r.end-r.first) {
				return fmt.Errorf("unknown watch %d of a stream with %d", watch, r.end-r.first)
			}
			r.concerned = append(r.concerned, r.first+int(watch))
		}
		r.counter.Receive(r.group, part, at, r.concerned[before:]...)
		return nil
	})
	return r.concerned, err
}
