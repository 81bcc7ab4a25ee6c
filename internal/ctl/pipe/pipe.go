// Package pipe reads and writes files that may be named pipes or devices. Whatever waits for the other end of a pipe
// stops waiting when a context ends, so that one signal ends a command.
package pipe

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"
)

// Await returns the result of a function that waits for another program or for the user, or the cause of ctx if that
// ends first. A system call cannot be canceled: the function then goes on in vain, until the program ends.
func Await[T any](ctx context.Context, wait func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := wait()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		var none T
		return none, context.Cause(ctx)
	}
}

// ReadFile is os.ReadFile with a context.
func ReadFile(ctx context.Context, path string) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) { return os.ReadFile(path) })
}

// ReadAll is io.ReadAll with a context.
func ReadAll(ctx context.Context, in io.Reader) ([]byte, error) {
	return Await(ctx, func() ([]byte, error) { return io.ReadAll(in) })
}

// File is a device or a pipe. When its context ends, Write fails with the cause.
type File struct {
	*os.File
	ctx context.Context
}

// Create opens a device or a pipe to write to it. It waits for a reader of a pipe until ctx ends.
func Create(ctx context.Context, path string) (*File, error) {
	return Await(ctx, func() (*File, error) {
		file, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err != nil {
			return nil, err
		}
		context.AfterFunc(ctx, func() { _ = file.Close() }) // ends a write, and closes a file that nobody waits for any more
		return &File{file, ctx}, nil
	})
}

// Write implements io.Writer.
func (f *File) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	if err != nil && f.ctx.Err() != nil {
		err = context.Cause(f.ctx)
	}
	return n, err
}

// IsClosed reports whether a write has failed because the pipe has no reader.
func IsClosed(err error) bool { return errors.Is(err, syscall.EPIPE) }
