package reload

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Value is what the content of a file means, such as a policy. Nil is the value of no file.
type Value[T any] struct {
	file    *File
	changed func() // called on Run's goroutine after each change; nil before Run
	current atomic.Pointer[T]
}

// LoadValue reads the file and parses its content. [Value.Run] parses each new content. If that
// fails then, the value before stays in use.
func LoadValue[T any](path string, log *slog.Logger, parse func(content []byte) (*T, error)) (*Value[T], error) {
	v := &Value[T]{}
	var err error
	v.file, err = Load(path, log, func(content []byte) error {
		fresh, err := parse(content)
		if err != nil {
			return err
		}
		v.current.Store(fresh)
		if v.changed != nil {
			v.changed()
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return v, nil
}

// Get returns the value in use. It must not be modified.
func (v *Value[T]) Get() *T {
	if v == nil {
		return nil
	}
	return v.current.Load()
}

// Run follows the file until ctx is done, and calls changed after each change; see [File.Run].
func (v *Value[T]) Run(ctx context.Context, changed func()) {
	v.changed = changed
	v.file.Run(ctx)
}

// Check makes Run poll the file at once; see [File.Check].
func (v *Value[T]) Check(ctx context.Context) { v.file.Check(ctx) }
