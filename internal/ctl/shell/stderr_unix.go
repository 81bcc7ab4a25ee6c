//go:build unix

package shell

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// stderr passes on what a command writes to standard error, and keeps the end of it. A command that writes to a
// [exec.Cmd.Stderr] of another type than a file would not end before the processes that it leaves in the background.
type stderr struct {
	to     io.Writer
	last   lastWords
	pipe   *os.File   // the end for reading
	copied chan error // why the goroutine that reads has ended
}

// attach makes a command write to a pipe.
func (s *stderr) attach(cmd *exec.Cmd) error {
	r, w, err := os.Pipe()
	if err != nil {
		return err
	}
	s.pipe, s.copied, cmd.Stderr = r, make(chan error, 1), w
	return nil
}

// begin begins to read. The command has started, or has failed to.
func (s *stderr) begin(cmd *exec.Cmd) {
	_ = cmd.Stderr.(*os.File).Close() // the command has its own
	go func() { s.copied <- s.copy(io.MultiWriter(&s.last, s.to)) }()
}

// copy copies until the end or the deadline. If the writer fails, it closes the pipe, as if the command had the writer.
func (s *stderr) copy(to io.Writer) error {
	_, err := io.Copy(to, s.pipe)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		_ = s.pipe.Close()
	}
	return err
}

// end reads the rest of what a command has written, which has ended.
func (s *stderr) end(left *leftPipes) {
	_ = s.pipe.SetReadDeadline(time.Unix(1, 0)) // at once
	if err := <-s.copied; !errors.Is(err, os.ErrDeadlineExceeded) {
		return
	}
	_ = s.pipe.SetReadDeadline(time.Time{})
	if s.drain() {
		left.add(s)
		return
	}
	_ = s.pipe.Close()
}

// drain reads what is in the pipe. It reports whether there may be more, from processes in the background.
func (s *stderr) drain() (more bool) {
	conn, err := s.pipe.SyscallConn()
	if err != nil {
		return false
	}
	buf := make([]byte, 4096)
	err = conn.Read(func(fd uintptr) bool {
		for {
			n, err := unix.Read(int(fd), buf)
			switch {
			case errors.Is(err, unix.EINTR):
			case n <= 0:
				more = errors.Is(err, unix.EAGAIN)
				return true
			default:
				_, _ = s.last.Write(buf[:n])
				_, _ = s.to.Write(buf[:n])
			}
		}
	})
	return more && err == nil
}

// leftPipes are the pipes of processes that commands have left in the background.
type leftPipes struct {
	running sync.WaitGroup
	mu      sync.Mutex
	open    map[*stderr]bool // guarded by mu
}

// add passes on what processes in the background write.
func (l *leftPipes) add(s *stderr) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open == nil {
		l.open = map[*stderr]bool{}
	}
	l.open[s] = true
	l.running.Go(func() {
		_ = s.copy(s.to)
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, s)
	})
}

// close ends that.
func (l *leftPipes) close() {
	l.mu.Lock()
	for s := range l.open {
		_ = s.pipe.Close()
	}
	l.mu.Unlock()
	l.running.Wait()
}
