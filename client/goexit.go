package client

import "errors"

// A callback may end its goroutine with runtime.Goexit, as testing.T.FailNow does. There are two ways to survive
// that. A restarter costs a call nothing, but its loop must be able to begin again in the middle of its work.
// callInGoroutine starts a goroutine for each call, and is for all other callers. With both, a panic ends the program.

// errExited is the failure of a callback that has ended its goroutine.
var errExited = errors.New("the callback has ended its goroutine (runtime.Goexit)")

// restarter runs a loop, and starts it again in another goroutine when a callback has ended its goroutine.
type restarter struct {
	calling bool // a callback runs
	exited  bool // it has ended the goroutine
}

// run calls loop until it returns, and then ended. A loop that begins again must come to the same
// callback first.
func (r *restarter) run(loop, ended func()) {
	returned := false
	defer func() {
		if returned {
			ended()
			return
		}
		if p := recover(); p != nil {
			panic(p) // before others take the end of the loop for an orderly one
		}
		r.exited, r.calling = r.calling, false
		go r.run(loop, ended)
	}()
	loop()
	returned = true
}

// call calls a callback. If that has just ended the goroutine, call returns errExited instead.
func (r *restarter) call(callback func() error) error {
	if r.exited {
		r.exited = false
		return errExited
	}
	r.calling = true
	err := callback()
	r.calling = false
	return err
}

// callInGoroutine calls a callback in a goroutine of its own and waits for it, so it cannot end that of the caller.
func callInGoroutine[T any](callback func() (T, error)) (result T, err error) {
	err = errExited
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result, err = callback()
	}()
	<-ended
	return result, err
}
