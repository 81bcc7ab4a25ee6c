package pipe

import (
	"context"
	"errors"
	"io"
	"os"
	"time"
)

// File is a file that is read, or one that is written and not replaced. When its context ends, Read and Write fail with
// the cause. Close must be called.
type File struct {
	file *os.File
	ctx  context.Context
	stop func() bool
}

// Open opens a file to read it. It waits for a writer of a pipe until ctx ends.
func Open(ctx context.Context, path string) (*File, error) { return open(ctx, path, os.O_RDONLY) }

// Create opens a device or a pipe to write to it. It waits for a reader of a pipe until ctx ends.
func Create(ctx context.Context, path string) (*File, error) { return open(ctx, path, os.O_WRONLY) }

// ReadFile is os.ReadFile with a context.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	f, err := Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func open(ctx context.Context, path string, flag int) (*File, error) {
	type result struct {
		file *os.File
		err  error
	}
	opened := make(chan result)
	// The system call cannot be canceled. If ctx ends, the goroutine stays until the pipe has another end, or the
	// program ends.
	go func() {
		file, err := os.OpenFile(path, flag, 0)
		select {
		case opened <- result{file, err}:
		case <-ctx.Done():
			file.Close()
		}
	}()
	select {
	case r := <-opened:
		if r.err != nil {
			return nil, r.err
		}
		return &File{file: r.file, ctx: ctx, stop: context.AfterFunc(ctx, func() {
			_ = r.file.SetDeadline(time.Unix(1, 0)) // what has no deadline, such as /dev/null, does not wait
		})}, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// Read implements io.Reader.
func (f *File) Read(p []byte) (int, error) {
	n, err := f.file.Read(p)
	return n, f.causeOf(err)
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.file.Write(p)
	return n, f.causeOf(err)
}

func (f *File) causeOf(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Cause(f.ctx)
	}
	return err
}

// Close closes the file.
func (f *File) Close() error {
	f.stop()
	return f.file.Close()
}
