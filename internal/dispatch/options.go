package dispatch

import "time"

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
