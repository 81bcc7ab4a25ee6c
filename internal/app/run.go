package app

import (
	"context"
	"errors"
	"log/slog"
)

// Run runs fanoutd until ctx is done.
func Run(_ context.Context, _ Config, _ *slog.Logger) error {
	return errors.New("there is no server yet")
}
