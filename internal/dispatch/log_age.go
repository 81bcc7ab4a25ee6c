package dispatch

import "time"

// logAgeInterval is how often old segments are dropped. While nothing changes, it is
// idleSweepInterval.
const logAgeInterval = 10 * time.Second

// maxYoungSegments limits how many segments with new events dropUntil looks at. The segments are
// listed in the order of their creation. The last segment of a feed with few events is filled
// slowly: it was created early and still gets new events. There may be old ones behind it.
const maxYoungSegments = 1000

// dropOldSegments occasionally drops the segments whose events are older than Config.LogAge.
// Nearly all watchers have read these events. The others will find them in the window. The caller holds the mutex and
// publishes the feeds.
func (d *Dispatcher) dropOldSegments() {
	now := time.Now()
	if now.Sub(d.aged) < logAgeInterval {
		return
	}
	d.aged = now
	d.logs.dropUntil(now.Add(-d.cfg.LogAge).Sub(d.created))
	d.stats.logBytes.Store(int64(d.logs.bytes))
}

// dropUntil drops the segments that have only events that arrived before the time.
func (b *logBudget) dropUntil(arrived time.Duration) {
	young := 0
	for s := b.oldest; s != nil && young < maxYoungSegments; {
		next := s.next
		if s.entries[s.n-1].arrived < arrived {
			// The segments of a feed are in order of their events, so s is its oldest.
			b.publishLater(s.feed)
			s.feed.forgetOldest()
		} else {
			young++
		}
		s = next
	}
}

// publishAll shows readers the logs that have changed.
func (d *Dispatcher) publishAll() {
	for _, f := range d.unpublished {
		f.publish()
	}
}

// ageLogs drops old segments while nothing changes. No watcher is woken, because there is no
// new event.
func (d *Dispatcher) ageLogs() {
	d.dropOldSegments()
	d.publishAll()
	clear(d.unpublished)
	d.unpublished = d.unpublished[:0]
}
