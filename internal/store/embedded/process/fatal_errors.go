package process

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.uber.org/zap/zapcore"

	"github.com/fanoutd/fanoutd/internal/store/embedded/disk"
)

// FatalErrors receives the errors after which etcd cannot go on. etcd reports them with
// zap's Panic and Fatal, which by default end the process with a stack trace or without any
// cleanup.
type FatalErrors struct {
	// KeepsSnapshots means that no file of the write-ahead log is removed before the raft snapshot that replaces it is
	// saved. Otherwise etcd removes them, and a snapshot that cannot be saved is an error. It is set before the first use.
	KeepsSnapshots bool

	Happened context.Context // done after the first error, its cause; later ones follow from it
	report   context.CancelCauseFunc
}

// NewFatalErrors returns one without errors.
func NewFatalErrors() *FatalErrors {
	f := &FatalErrors{}
	f.Happened, f.report = context.WithCancelCause(context.Background())
	return f
}

// OnWrite implements [zapcore.CheckWriteHook]. It reports the error and then blocks the
// goroutine of etcd forever: etcd must not go on as if nothing had failed, and unwinding
// would release locks under which its state is inconsistent. Without it, the process ends with a
// panic, and the watches without their last positions: TestEmbeddedEtcdFails.
func (f *FatalErrors) OnWrite(entry *zapcore.CheckedEntry, fields []zapcore.Field) {
	err := errors.New(entry.Message)
	for _, field := range fields {
		if cause, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			err = fmt.Errorf("%w: %w", err, cause)
		}
	}
	if f.KeepsSnapshots && isSnapshotOnFullDisk(entry.Message, err) {
		return
	}
	f.Report(err)
	select {}
}

// Report reports an error that this process has noticed.
func (f *FatalErrors) Report(err error) { f.report(err) }

// First returns the first error, or nil.
func (f *FatalErrors) First() error { return context.Cause(f.Happened) }

// During calls a function of etcd, or one that waits for etcd. If etcd fails, the function may
// never return: During then returns the fatal error, and leaves the goroutine of the function
// behind. The process is expected to exit.
func (f *FatalErrors) During(call func() error) error {
	done := make(chan error, 1)
	go func() { done <- call() }()
	select {
	case err := <-done:
		return err
	case <-f.Happened.Done():
		return f.First()
	}
}

// isSnapshotOnFullDisk reports whether etcd failed to write the file of a raft snapshot on a
// full disk, and has removed the file. A single member then goes on safely: a snapshot only means that etcd
// replays fewer entries after a restart and may remove older files of its log. fanoutd removes
// these files itself, and only those before a snapshot that was saved, see raftSnapshots of package embedded. The
// next snapshot comes when the log has grown again. Without this, TestRaftSnapshotOnAFullDisk finds
// that the server has ended.
//
// The files of a member of several are removed by etcd, which would take the snapshot for saved.
func isSnapshotOnFullDisk(message string, err error) bool {
	failed, ok := errors.AsType[*fs.PathError](err)
	if message != "failed to save snapshot" || !ok || filepath.Ext(failed.Path) != ".snap" || !disk.Full(err) {
		return false
	}
	_, err = os.Lstat(failed.Path)
	return errors.Is(err, fs.ErrNotExist)
}
