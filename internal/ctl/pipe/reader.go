package pipe

import (
	"context"
	"io"
)

// Reader reads from a file that is open already, such as standard input, until ctx ends. It reads ahead, so nothing
// else can read the file afterwards. Close must be called.
func Reader(ctx context.Context, in io.Reader) io.ReadCloser {
	out, into := io.Pipe()
	stop := context.AfterFunc(ctx, func() { into.CloseWithError(context.Cause(ctx)) })
	go func() {
		_, err := io.Copy(into, in)
		into.CloseWithError(err)
	}()
	return &reader{out, stop}
}

type reader struct {
	*io.PipeReader
	stop func() bool
}

// Close ends reading. A read that waits ends with the program.
func (r *reader) Close() error {
	r.stop()
	return r.PipeReader.Close()
}
