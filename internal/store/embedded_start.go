package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime/debug"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap/zapcore"
)

// fatalErrors receives the errors after which etcd cannot go on. etcd reports them with
// zap's Panic and Fatal, which by default end the process with a stack trace or without any
// cleanup.
type fatalErrors struct {
	first chan error // has room for one error; later ones follow from it
}

func newFatalErrors() *fatalErrors { return &fatalErrors{first: make(chan error, 1)} }

// OnWrite implements [zapcore.CheckWriteHook]. It reports the error and then blocks the
// goroutine of etcd forever: etcd must not go on as if nothing had failed, and unwinding
// would release locks under which its state is inconsistent.
func (f *fatalErrors) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	if isSnapshotOnFullDisk(entry.Message, err) {
		return
	}
	f.report(err)
	select {}
}

func (f *fatalErrors) report(err error) {
	select {
	case f.first <- err:
	default:
	}
}

// isSnapshotOnFullDisk reports whether etcd failed to write the file of a raft snapshot on a
// full disk. It then goes on safely: a snapshot only means that etcd replays fewer entries
// after a restart and may remove older files of its log. fanoutd removes these files itself,
// and only those before a snapshot file that exists, see [walPurger]. The next snapshot comes
// when the log has grown again.
func isSnapshotOnFullDisk(message string, err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	return message == "failed to save snapshot" && ok && filepath.Ext(failed.Path) == ".snap" && isDiskFull(err)
}

// startLimit returns how long the start of etcd may take. etcd reads its whole database and
// write-ahead log.
func startLimit(dir string) time.Duration {
	const slowDisk = 16 << 20 // bytes per second
	return time.Minute + time.Duration(memberBytes(dir)/slowDisk)*time.Second
}

// startMember checks the data directory and starts etcd in it. It returns once etcd serves
// requests, at the latest after the limit.
//
// If etcd fails in a way that it cannot report, or takes too long, its goroutines are left
// behind, because nothing can end them. The process is expected to exit.
func startMember(ctx context.Context, cfg *embed.Config, fatal *fatalErrors, limit time.Duration) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		defer func() {
			if p := recover(); p != nil {
				started <- result{err: fmt.Errorf("the database is damaged, restore a backup: %v", p)}
			}
		}()
		// etcd reads its database through a memory map. Without this, a page beyond the
		// end of the file ends the process.
		debug.SetPanicOnFault(true)
		if err := checkMember(cfg.Dir); err != nil {
			started <- result{err: err}
			return
		}
		etcd, err := embed.StartEtcd(cfg)
		started <- result{etcd, err}
	}()
	timeout := time.NewTimer(limit)
	defer timeout.Stop()
	var etcd *embed.Etcd
	select {
	case r := <-started:
		if r.err != nil {
			return nil, r.err
		}
		etcd = r.etcd
	case err := <-fatal.first:
		return nil, err
	case <-timeout.C:
		return nil, &startTimeoutError{limit}
	}
	select {
	case <-etcd.Server.ReadyNotify():
		return etcd, nil
	case err := <-fatal.first:
		return nil, err
	case <-timeout.C:
		return nil, &startTimeoutError{limit}
	case err := <-etcd.Err():
		return nil, stopAfter(etcd, err)
	case <-etcd.Server.StopNotify():
		return nil, stopAfter(etcd, errors.New("etcd stopped before it was ready"))
	case <-ctx.Done():
		return nil, stopAfter(etcd, ctx.Err())
	}
}

func stopAfter(etcd *embed.Etcd, err error) error {
	etcd.Close()
	return err
}

// startTimeoutError means that etcd did not become ready in time.
type startTimeoutError struct{ limit time.Duration }

func (e *startTimeoutError) Error() string {
	return fmt.Sprintf("etcd did not become ready within %v: its data may be damaged or belong to a cluster of several members", e.limit)
}
