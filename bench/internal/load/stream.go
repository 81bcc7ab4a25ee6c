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

	concerned []int     // the watchers of the latest message
	reports   *reporter // nil: the watches do not report
}

// stream returns the reader of the stream whose first watcher is given. The end is that of the
// connection's watchers.
func (w *watchers) stream(s service, group, first, end int) *streamReader {
	r := &streamReader{counter: w.counter, service: s, group: group, first: first, end: min(first+w.config.streamSize(), end)}
	if w.config.Reports > 0 {
		r.reports = newReporter(w.config.Reports, r.end-r.first)
	}
	return r
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
		if r.reports == nil {
			return nil
		}
		return r.reports.applied(watches, part, at)
	})
	return r.concerned, err
}
