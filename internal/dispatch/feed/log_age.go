package feed

import "time"

// logAgeInterval is the shortest time between two searches for old segments. While nothing
// changes, Run searches at intervals of idleSweepInterval.
const logAgeInterval = 10 * time.Second

// maxYoungSegments is the number of young segments after which dropUntil stops its search. A
// segment is young if its last event is new. The segments are listed in the order of their
// creation, and a feed with few events fills its last segment slowly. So a young segment may
// come before old ones in the list.
const maxYoungSegments = 1000

// dropOldSegments occasionally drops the segments whose events are older than Config.LogAge.
// Nearly all watches have read these events. The others read them from the window. The
// caller holds the mutex and publishes the feeds.
func (fs *Feeds) dropOldSegments() {
	now := time.Now()
	if now.Sub(fs.aged) < logAgeInterval {
		return
	}
	fs.aged = now
	fs.logs.dropUntil(now.Add(-fs.Config.LogAge).Sub(fs.Created))
	fs.stats.logBytes.Store(int64(fs.logs.bytes))
}

// dropUntil drops each segment whose events all arrived before the given time.
func (b *logBudget) dropUntil(arrived time.Duration) {
	young := 0
	for e := b.segments.Front(); e != nil && young < maxYoungSegments; {
		next := e.Next()
		if s := e.Value.(*segment); s.entries[s.n-1].Arrived < arrived {
			// Older segments of the same feed come earlier in the list, and this loop has
			// already dropped them. So this segment is the oldest of its feed.
			b.drop(e)
		} else {
			young++
		}
		e = next
	}
}

// ageLogs drops old segments while nothing changes.
func (fs *Feeds) ageLogs() {
	fs.dropOldSegments()
	fs.publishAll()
	fs.takeNews() // there are none
}
