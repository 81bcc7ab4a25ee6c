// Package work runs functions that need more than the goroutine that asks for them has: a turn among
// others, a stack of their own, or protection from their panics.
package work

import (
	"fmt"
	"runtime/debug"
)

// PanicError is a panic of a goroutine that served a watch. The watch ends with this error. If a
// worker panics in the work that it does once for a group or for a response, all their watches end.
type PanicError struct {
	Value any
	Stack []byte
}

func (e *PanicError) Error() string { return fmt.Sprint("panic: ", e.Value) }

// Panicked returns the error of a recovered panic. It is called before the deferred function returns,
// so the stack is that of the panic.
func Panicked(value any) *PanicError { return &PanicError{value, debug.Stack()} }

// Guard calls a function and returns its error, or a [*PanicError] if the function panics.
func Guard(do func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = Panicked(p)
		}
	}()
	return do()
}

// OnFreshStack runs a function on a goroutine of its own and waits for its end. Most of the
// memory of a waiting goroutine is its stack, and a stack that has grown rarely shrinks.
// Handlers mostly wait. So they call OnFreshStack for work that needs a deep stack, and keep
// a small stack. This halves the memory of an idle watch. A panic becomes a [*PanicError].
func OnFreshStack(do func() error) error {
	done := make(chan error, 1)
	go func() { done <- Guard(do) }()
	return <-done
}
