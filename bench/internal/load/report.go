package load

import (
	"fmt"
	"math/rand/v2"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"

	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// reporter makes the reports of the watches of one stream. A watch has applied a response as soon
// as it was counted.
type reporter struct {
	interval int64
	next     []int64  // by watch: the time of its next report
	due      [][]byte // requests to send
}

// newReporter returns a reporter for a number of watches. Their first reports are spread over the
// interval, like those of subscribers that did not start together.
func newReporter(interval time.Duration, watches int) *reporter {
	r := &reporter{interval: interval.Nanoseconds(), next: make([]int64, watches)}
	began := stamp.Now()
	for i := range r.next {
		r.next[i] = began + rand.Int64N(r.interval)
	}
	return r
}

// applied makes a report for each of these watches whose report is due.
func (r *reporter) applied(watches []uint64, response []byte, at int64) error {
	var position *fanoutv1.Position
	for _, watch := range watches {
		if at < r.next[watch] {
			continue
		}
		r.next[watch] = at + r.interval
		if position == nil {
			var m fanoutv1.WatchResponse
			if err := proto.Unmarshal(response, &m); err != nil {
				return fmt.Errorf("read a response: %w", err)
			}
			position = m.GetPosition()
		}
		request, err := proto.Marshal(&fanoutv1.SubscribeRequest{Request: &fanoutv1.SubscribeRequest_Report_{
			Report: &fanoutv1.SubscribeRequest_Report{WatchId: watch, Applied: position},
		}})
		if err != nil {
			return fmt.Errorf("report: %w", err)
		}
		r.due = append(r.due, request)
	}
	return nil
}
