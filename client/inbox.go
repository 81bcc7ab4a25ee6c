package client

import (
	"sync"
	"time"
)

// minBuffer is how many bytes may always wait for the caller of a watch, besides one message.
const minBuffer = 256 << 10

// inbox has the messages that wait for the watcher of one watch, and why no further ones follow.
type inbox struct {
	ready chan struct{} // wakes the watcher; buffers one signal
	timer *time.Timer   // belongs to the watcher

	mu    sync.Mutex
	first *message   // guarded by mu
	more  []*message // after the first; guarded by mu
	bytes int        // of all messages; guarded by mu
	err   error      // after the messages; guarded by mu
	ended func()     // is called when err is set; guarded by mu
}

func newInbox() inbox { return inbox{ready: make(chan struct{}, 1)} }

// put adds a message, if no other one waits, or if all of them together have at most a limit of bytes.
func (i *inbox) put(m *message, limit int) bool {
	i.mu.Lock()
	switch {
	case i.first == nil:
		i.first = m
	case i.bytes+m.size > limit:
		i.mu.Unlock()
		return false
	default:
		i.more = append(i.more, m)
	}
	i.bytes += m.size
	i.mu.Unlock()
	i.wake()
	return true
}

// take returns the first message. If there is none, it returns the error, if that is known.
func (i *inbox) take() (*message, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	m := i.first
	if m == nil {
		return nil, i.err
	}
	i.bytes -= m.size
	i.first = nil
	if len(i.more) > 0 {
		i.first, i.more[0] = i.more[0], nil
		if i.more = i.more[1:]; len(i.more) == 0 {
			i.more = nil
		}
	}
	return m, nil
}

// wait waits for the next message or the error. The timer runs only here, so time that the caller spends on an update
// does not count as silence of the server. It returns false after the limit.
func (i *inbox) wait(limit time.Duration) bool {
	if i.timer == nil {
		i.timer = time.NewTimer(limit)
	} else {
		i.timer.Reset(limit)
	}
	defer i.timer.Stop()
	for {
		select {
		case <-i.ready:
			if i.isReady() {
				return true
			}
		case <-i.timer.C:
			return i.isReady() // the watcher may be late itself
		}
	}
}

func (i *inbox) isReady() bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.first != nil || i.err != nil
}

// clear drops all messages, and returns their bytes.
func (i *inbox) clear() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	bytes := i.bytes
	i.first, i.more, i.bytes = nil, nil, 0
	return bytes
}

// end sets the error after the last message.
func (i *inbox) end(err error) {
	i.mu.Lock()
	i.err = err
	ended := i.ended
	i.mu.Unlock()
	i.wake()
	if ended != nil {
		ended()
	}
}

// onEnd makes end call f, or calls it if there is an error already. f must not wait.
func (i *inbox) onEnd(f func()) {
	i.mu.Lock()
	i.ended = f
	over := i.err != nil
	i.mu.Unlock()
	if over {
		f()
	}
}

func (i *inbox) wake() {
	select {
	case i.ready <- struct{}{}:
	default:
	}
}
