package main

import (
	"io"
	"log/slog"

	"github.com/fanoutd/fanoutd/internal/config"
)

// logger returns the logger that the configuration asks for. Its level and format
// have been checked.
func logger(w io.Writer, cfg config.Config) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(cfg.LogLevel)); err != nil {
		level = slog.LevelInfo
	}
	options := &slog.HandlerOptions{Level: level}
	if cfg.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}
