package dispatch

import "time"

// Options configure what a watcher delivers and when. With the zero value, a watcher delivers
// every event as soon as possible and sends no bookmarks.
type Options struct {
	// Latest merges pending events per key.
	Latest bool

	// EveryEvent ends the watch with a [*LostError] or an [*EpochError] where other watches
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
