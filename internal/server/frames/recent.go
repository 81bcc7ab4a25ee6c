package frames

import "time"

// abandonedWithin is how soon a client must give up a stream for the stream to count as
// abandoned. A client may end older streams as it likes, for example thousands of watches at
// once, or requests whose deadline has passed. The rate of opening bounds these.
const abandonedWithin = 100 * time.Millisecond

// recentStreams knows which streams of a connection are young. Stream ids only increase, so
// it remembers where the latest two intervals began. A stream is young for one to two times
// abandonedWithin.
type recentStreams struct{ begins [2]streamMark } // the later one first

// streamMark is the beginning of an interval: its streams have higher ids.
type streamMark struct {
	id uint32
	at time.Time
}

// open notes that a stream is opened.
func (r *recentStreams) open(id uint32, now time.Time) {
	if now.Sub(r.begins[0].at) >= abandonedWithin {
		r.begins[0], r.begins[1] = streamMark{id - 1, now}, r.begins[0]
	}
}

// has reports whether a stream is young.
func (r *recentStreams) has(id uint32, now time.Time) bool {
	for _, begin := range r.begins {
		if id > begin.id {
			return now.Sub(begin.at) < 2*abandonedWithin
		}
	}
	return false
}
