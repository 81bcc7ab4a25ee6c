package localfile

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Output writes to a file that is not replaced. Close must be called.
type Output struct {
	file *os.File
	ctx  context.Context
	stop func() bool
}

// Open opens a device or a named pipe to write to it. If ctx ends, it no longer waits for a reader of
// the pipe, and neither does Write.
func Open(ctx context.Context, path string) (*Output, error) {
	opened, released := make(chan struct{}), make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(released)
		// The system call waits for a reader, and cannot be canceled. So this is the reader.
		if reader, err := os.OpenFile(path, os.O_RDWR|syscall.O_NONBLOCK, 0); err == nil {
			<-opened
			reader.Close()
		}
	})
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	close(opened)
	if !stop() {
		<-released
		if err == nil {
			file.Close()
		}
		return nil, context.Cause(ctx)
	}
	if err != nil {
		return nil, err
	}
	return &Output{file: file, ctx: ctx, stop: context.AfterFunc(ctx, func() {
		_ = file.SetWriteDeadline(time.Unix(1, 0)) // a device such as /dev/null has no deadline, and does not wait
	})}, nil
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	n, err := o.file.Write(p)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		err = context.Cause(o.ctx)
	}
	return n, err
}

// Close closes the file.
func (o *Output) Close() error {
	o.stop()
	return o.file.Close()
}
