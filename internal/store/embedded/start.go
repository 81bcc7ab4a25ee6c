package embedded

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
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
	happened context.Context // done after the first error, its cause; later ones follow from it
	report   context.CancelCauseFunc
}

func newFatalErrors() *fatalErrors {
	f := &fatalErrors{}
	f.happened, f.report = context.WithCancelCause(context.Background())
	return f
}

// OnWrite implements [zapcore.CheckWriteHook]. It reports the error and then blocks the
// goroutine of etcd forever: etcd must not go on as if nothing had failed, and unwinding
// would release locks under which its state is inconsistent. Without it, the process ends with a
// panic, and the watches without their last positions: TestEmbeddedEtcdFails.
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

// first returns the first error, or nil.
func (f *fatalErrors) first() error { return context.Cause(f.happened) }

// during calls a function of etcd, or one that waits for etcd. If etcd fails, the function may
// never return: during then returns the fatal error, and leaves the goroutine of the function
// behind. The process is expected to exit.
func (f *fatalErrors) during(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-f.happened.Done():
		return f.first()
	}
}

// isSnapshotOnFullDisk reports whether etcd failed to write the file of a raft snapshot on a
// full disk, and has removed the file. It then goes on safely: a snapshot only means that etcd
// replays fewer entries after a restart and may remove older files of its log. fanoutd removes
// these files itself, and only those before a snapshot that was saved, see [raftSnapshots]. The
// next snapshot comes when the log has grown again. Without this, TestRaftSnapshotOnAFullDisk finds
// that the server has ended.
func isSnapshotOnFullDisk(message string, err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	if message != "failed to save snapshot" || !ok || filepath.Ext(failed.Path) != ".snap" || !isDiskFull(err) {
		return false
	}
	_, err = os.Lstat(failed.Path)
	return errors.Is(err, fs.ErrNotExist)
}

// startLimit returns how long the start of etcd may take. etcd reads its whole database and
// write-ahead log.
func startLimit(dir string) time.Duration {
	const slowDisk = 16 << 20 // bytes per second
	return time.Minute + time.Duration(memberBytes(dir)/slowDisk)*time.Second
}

// startEtcd checks the data directory and starts etcd in it. It does not wait until etcd
// serves requests.
func startEtcd(cfg *embed.Config, several bool) (*embed.Etcd, error) {
	if err := checkMember(cfg.Dir, several); err != nil {
		return nil, err
	}
	return embed.StartEtcd(cfg)
}

// startMember calls start, which starts etcd. It returns once etcd serves requests, at the
// latest after the limit. A member of several serves requests only once a majority has started, so for it,
// startMember does not wait for that.
//
// If etcd fails in a way that it cannot report, or takes too long, its goroutines are left
// behind, because nothing can end them. The process is expected to exit.
func startMember(ctx context.Context, start func() (*embed.Etcd, error), fatal *fatalErrors, limit time.Duration, several bool) (*embed.Etcd, error) {
	timeout := time.AfterFunc(limit, func() {
		fatal.report(fmt.Errorf("etcd did not become ready within %v: its data may be damaged or belong to a cluster of several members", limit))
	})
	defer timeout.Stop()
	var etcd *embed.Etcd
	err := fatal.during(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = damaged("the database is damaged, restore a backup: %v", p)
			}
		}()
		// etcd reads its database through a memory map. Without this, a page beyond the
		// end of the file ends the process: TestDamagedDataDirectory.
		debug.SetPanicOnFault(true)
		if etcd, err = start(); err != nil || several {
			return err
		}
		select {
		case <-etcd.Server.ReadyNotify():
			return nil
		case err = <-etcd.Err():
		case <-etcd.Server.StopNotify():
			err = errors.New("etcd stopped before it was ready")
		case <-ctx.Done():
			err = ctx.Err()
		}
		closeEtcd(etcd)
		return err
	})
	if err != nil {
		return nil, err
	}
	return etcd, nil
}

// closeEtcd stops etcd. [embed.Etcd.Close] waits for goroutines that wait for the end of the start, which
// without a majority never comes: TestStopWithoutAMajority.
func closeEtcd(etcd *embed.Etcd) {
	select {
	case <-etcd.Server.ReadyNotify():
	default:
		etcd.Server.Stop()
	}
	etcd.Close()
}
