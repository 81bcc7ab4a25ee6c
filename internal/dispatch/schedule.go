package dispatch

import (
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Options configure what a watch delivers and when. With the zero value, a watch delivers
// every event as soon as possible and sends no bookmarks.
type Options struct {
	// Latest merges pending events per key.
	Latest bool

	// EveryEvent ends the watch with a [*catchup.LostError] or a [*catchup.EpochError] where other watches
	// get a DELTA or a RESET. Only the RESET with which a watch begins is allowed.
	EveryEvent bool

	// BookmarkInterval is the longest time without a message. Zero: no limit.
	BookmarkInterval time.Duration

	// LastBookmark is when to send the last bookmark, shortly before the watch ends. Zero:
	// never. The watches of a dispatcher have the one of their stream instead.
	LastBookmark time.Time

	// BatchDelay is the shortest time between two live messages. Events that come earlier
	// wait and leave together. The delay is at most BookmarkInterval, and ends at
	// LastBookmark. Zero: no delay.
	BatchDelay time.Duration
}

// longestBatchDelay is BatchDelay, but at most the bookmark interval: a client would take a longer
// silence for a dead server.
func (o *Options) longestBatchDelay() time.Duration {
	if o.BookmarkInterval > 0 {
		return min(o.BatchDelay, o.BookmarkInterval)
	}
	return o.BatchDelay
}

// Schedule decides when a watch sends bookmarks and how long it holds live events back. It
// applies to watches of this package and of package direct. Callers pass the time, because
// reading the clock costs more than everything that the schedule does.
type Schedule struct {
	bookmarkInterval time.Duration // see [Options.BookmarkInterval]
	batchDelay       time.Duration // see [Options.BatchDelay]
	lastBookmark     time.Time     // see [Options.LastBookmark]

	sentAny          time.Time // when the latest message was sent
	sentLive         time.Time // when the latest live message was sent
	sentLastBookmark bool
}

// NewSchedule returns the schedule for the options.
func NewSchedule(o *Options) Schedule {
	return Schedule{bookmarkInterval: o.BookmarkInterval, batchDelay: o.longestBatchDelay(), lastBookmark: o.LastBookmark}
}

// IsSilent reports whether no message was sent for Options.BookmarkInterval. It returns false for
// a nil schedule.
func (s *Schedule) IsSilent(now time.Time) bool {
	return s != nil && s.bookmarkInterval > 0 && now.Sub(s.sentAny) >= s.bookmarkInterval
}

// IsLastBookmarkDue reports whether the time is Options.LastBookmark or later, and no bookmark was sent
// since then.
func (s *Schedule) IsLastBookmarkDue(now time.Time) bool {
	return !s.lastBookmark.IsZero() && !s.sentLastBookmark && !now.Before(s.lastBookmark)
}

// RecordSent records that a message was sent. If the message says that the state is old, the
// next bookmark is due soon.
func (s *Schedule) RecordSent(h *object.Header, now time.Time) {
	s.sentAny = now
	if s.isOld(h.Age) {
		s.RetrySoon(now)
	}
	switch h.Kind {
	case object.Live:
		s.sentLive = now
	case object.Bookmark:
		s.sentLastBookmark = s.sentLastBookmark || s.IsLastBookmarkDue(now)
	}
}

// Postpone delays the due periodic bookmark by one interval. Callers use Postpone when the
// watch must not send a bookmark now.
func (s *Schedule) Postpone(now time.Time) { s.sentAny = now }

// isOld reports whether a state of this age is older than one of a source that has contact with
// the store.
func (s *Schedule) isOld(age time.Duration) bool {
	return s.bookmarkInterval > 0 && age > s.bookmarkInterval
}

// bookmarkRetry is the time until the next bookmark while the source has no contact with the
// store. When the contact is back, clients soon learn it.
const bookmarkRetry = time.Second

// RetrySoon delays the due periodic bookmark by bookmarkRetry, or by one interval if that is less.
func (s *Schedule) RetrySoon(now time.Time) {
	s.sentAny = now.Add(min(bookmarkRetry-s.bookmarkInterval, 0))
}

// join makes the schedule serve watches of another schedule with the same options, too: each of
// them gets its next bookmark and its next live message at the right time.
func (s *Schedule) join(other *Schedule) {
	if other.sentAny.Before(s.sentAny) {
		s.sentAny = other.sentAny
	}
	if other.sentLive.After(s.sentLive) {
		s.sentLive = other.sentLive
	}
}

// HeldUntil returns when the batch delay of live events ends. It returns false if live events
// need not wait, and for a nil schedule.
func (s *Schedule) HeldUntil(now time.Time) (time.Time, bool) {
	if s == nil || s.batchDelay == 0 {
		return time.Time{}, false
	}
	until := s.sentLive.Add(s.batchDelay)
	if !s.lastBookmark.IsZero() && s.lastBookmark.Before(until) {
		until = s.lastBookmark
	}
	return until, now.Before(until)
}

// NextBookmark returns when the next bookmark is due if no other message is sent before. It
// returns the zero time if no bookmark will be due.
func (s *Schedule) NextBookmark() time.Time {
	var at time.Time
	if s.bookmarkInterval > 0 {
		at = s.sentAny.Add(s.bookmarkInterval)
	}
	if !s.sentLastBookmark && !s.lastBookmark.IsZero() && (at.IsZero() || s.lastBookmark.Before(at)) {
		at = s.lastBookmark
	}
	return at
}
