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
		files := []unix.PollFd{{Fd: int32(pipe.Fd())}, {Fd: int32(stopped.Fd()), Events: unix.POLLIN}}
		err := error(unix.EINTR)
		for errors.Is(err, unix.EINTR) {
			_, err = unix.Poll(files, -1)
		}
		if files[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0 {
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
