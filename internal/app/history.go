package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/backend"
)

// checkHistoryTimeout limits how long the start waits for an etcd that does not answer.
const checkHistoryTimeout = 5 * time.Second

// history returns the history of a resource; nil: it has none. It fails if the store may not write it.
func (a *App) history(ctx context.Context, rc config.Resource, collection Collection) (*backend.History, error) {
	if rc.History == nil {
		return nil, nil
	}
	store := collection.KeepHistory()
	if err := a.checkHistory(ctx, rc.Name, store); err != nil {
		return nil, err
	}
	log := a.log.With("resource", rc.Name)
	limits := history.Limits{Versions: rc.History.Versions, Age: time.Duration(rc.History.MaxAge), Bytes: int64(rc.History.MaxBytes)}
	return &backend.History{
		Recorder: history.NewRecorder(store, rc.History.TTL),
		Reader:   history.NewReader(store, rc.History.TTL),
		Pruner:   history.NewPruner(store, limits, log),
		Rewrite:  store.Rewrite,
	}, nil
}

// checkHistory returns an error if a server that writes may not write a history. A store that does not
// answer yet is no reason to fail.
func (a *App) checkHistory(ctx context.Context, resource string, store HistoryStore) error {
	if !a.cfg.Writes {
		return nil
	}
	checking, cancel := context.WithTimeout(ctx, checkHistoryTimeout)
	defer cancel()
	switch err := store.CheckRight(checking); {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, object.ErrUnavailable), errors.Is(err, object.ErrNoSpace), checking.Err() != nil:
		a.log.Warn("could not check whether the history can be written", "resource", resource, "error", err)
		return nil
	default:
		return fmt.Errorf("history: %w", err)
	}
}
