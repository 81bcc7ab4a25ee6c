package backend

import (
	"context"

	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// History is the history of a resource.
type History struct {
	Recorder *history.Recorder
	Reader   *history.Reader
	Pruner   *history.Pruner

	// Rewrite is the method of Store for the records of the history.
	Rewrite func(ctx context.Context, start object.Key, limit, batch int) (object.RewriteResult, error)
}
