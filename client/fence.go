package client

import "errors"

// errExited is the failure of a callback that has ended its goroutine.
var errExited = errors.New("the callback has ended its goroutine (runtime.Goexit)")

// fence keeps a loop alive whose callbacks may end the goroutine with runtime.Goexit, as
// testing.T.FailNow does. The loop then begins again in another goroutine. A panic ends the program.
type fence struct {
	calling bool // a callback runs
	exited  bool // it has ended the goroutine
}

// run calls loop until it returns, and then ended. A loop that begins again must come to the same
// callback first.
func (f *fence) run(loop, ended func()) {
	returned := false
	defer func() {
		if returned {
			ended()
			return
		}
		if p := recover(); p != nil {
			panic(p) // before others take the end of the loop for an orderly one
		}
		f.exited, f.calling = f.calling, false
		go f.run(loop, ended)
	}()
	loop()
	returned = true
}

// call calls a callback. If that has just ended the goroutine, call returns errExited instead.
func (f *fence) call(callback func() error) error {
	if f.exited {
		f.exited = false
		return errExited
	}
	f.calling = true
	err := callback()
	f.calling = false
	return err
}

// fenced calls a callback in a goroutine of its own and waits for it, so it cannot end that of the caller.
func fenced[T any](callback func() (T, error)) (result T, err error) {
	err = errExited
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		result, err = callback()
	}()
	<-ended
	return result, err
}
