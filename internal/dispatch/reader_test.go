package dispatch_test

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/dispatch/feed"
	"github.com/fanoutd/fanoutd/internal/object"
)

// reader is what a subscriber needs of a watch.
type reader interface {
	Next(ctx context.Context) (feed.Message, error)
	Position() object.Position
	Close()
}

// counts has the number of times that each thing happened.
type counts map[string]int
