package etcdlog

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"go.uber.org/zap/zapcore"
)

// levelOf returns the level of a line of etcd. It lowers INFO to DEBUG because those lines describe
// internals of a component, and so it does with lines about which an operator can do nothing.
func levelOf(entry *zapcore.Entry, fields []zapcore.Field) slog.Level {
	switch {
	case entry.Level < zapcore.WarnLevel, irrelevant[entry.Message], returnedErrors[entry.Message],
		ofAStart(entry.Message, fields), entry.Message == abandonedRead && isAbandoned(fields):
		return slog.LevelDebug
	case entry.Level == zapcore.WarnLevel:
		return slog.LevelWarn
	}
	return slog.LevelError
}

// irrelevant are warnings about the exposure of etcd to other machines. An operator of an embedded
// etcd cannot act on them.
var irrelevant = map[string]bool{
	"Running http and grpc server on single port. This is not recommended for production.": true,
	"simple token is not cryptographically signed":                                         true,
}

// returnedErrors are lines of etcd's client about errors that it also returns. The caller logs what
// follows from them, and the store logs that etcd cannot be reached.
var returnedErrors = map[string]bool{
	"retrying of unary invoker failed":        true,
	"streamer failed to create ClientStream":  true,
	"failed reestablishStreamAndResendBuffer": true,
	"retrying RecvMsg":                        true,
}

// ofAStart reports whether a line describes a state that every start passes through: etcd looks for
// its version in the database before it has written it there, and begins an election before it has
// applied its own membership. It tries again a moment later.
func ofAStart(message string, fields []zapcore.Field) bool {
	switch message {
	case "Failed to detect schema version", "failed to update storage version":
		err := errorIn(fields)
		return err != nil && strings.Contains(err.Error(), "missing term information")
	}
	return strings.Contains(message, "cannot campaign at term") && strings.Contains(message, "pending configuration changes")
}

// abandonedRead is an error message of etcd about a read in a transaction. It is not an error if
// the client of the read has given up.
const abandonedRead = "unexpected error during readonly txn"

func isAbandoned(fields []zapcore.Field) bool {
	err := errorIn(fields)
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// errorIn returns the error that a line has, or nil.
func errorIn(fields []zapcore.Field) error {
	for _, f := range fields {
		if err, ok := f.Interface.(error); ok && f.Type == zapcore.ErrorType {
			return err
		}
	}
	return nil
}
