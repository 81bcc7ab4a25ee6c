//go:build unix

package pipe

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// OnClosed calls f when the reader of out closes it, if out is a pipe. Until stop is called,
// writes to a closed standard output fail instead of ending the process.
func OnClosed(out any, f func()) (stop func(), err error) {
	pipe, ok := out.(*os.File)
	if !ok {
		return func() {}, nil
	}
	if info, err := pipe.Stat(); err != nil || info.Mode()&(os.ModeNamedPipe|os.ModeSocket) == 0 {
		return func() {}, nil
	}
	stopped, stopWriter, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("cannot watch standard output: %w", err)
	}
	// Nothing has to receive the signal: the write returns an error, too.
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGPIPE)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if pollClosed(int32(pipe.Fd()), int32(stopped.Fd())) {
			f()
		}
	}()
	return func() {
		stopWriter.Close()
		<-done
		stopped.Close()
		signal.Stop(signals)
	}, nil
}

// pollClosed waits until the reader of a pipe has closed it, and returns true, or until the writer of
// stopped has been closed.
func pollClosed(pipe, stopped int32) bool {
	files := []unix.PollFd{{Fd: pipe}, {Fd: stopped, Events: unix.POLLIN}}
	for {
		_, err := unix.Poll(files, -1)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil || files[1].Revents != 0:
			return false
		case files[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0:
			return true
		}
	}
}

// IsClosed reports whether a write has failed because the pipe has no reader.
func IsClosed(err error) bool { return errors.Is(err, syscall.EPIPE) }
