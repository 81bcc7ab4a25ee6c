package main

import (
	"sync"
	"time"
)

// queue hands keys to workers. It has each key at most once, however often that is added, and
// two workers never have the same key.
type queue struct {
	mu      sync.Mutex
	changed sync.Cond
	waiting []string
	added   map[string]bool // waiting, or added again while a worker has it
	working map[string]bool
	failed  map[string]int // how often in a row
	closed  bool
}

func newQueue() *queue {
	q := &queue{added: map[string]bool{}, working: map[string]bool{}, failed: map[string]int{}}
	q.changed.L = &q.mu
	return q
}

// add adds a key.
func (q *queue) add(key string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed || q.added[key] {
		return
	}
	q.added[key] = true
	if !q.working[key] {
		q.waiting = append(q.waiting, key)
		q.changed.Signal()
	}
}

// take waits for a key. It returns false when the queue is closed.
func (q *queue) take() (key string, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.waiting) == 0 && !q.closed {
		q.changed.Wait()
	}
	if q.closed {
		return "", false
	}
	key, q.waiting = q.waiting[0], q.waiting[1:]
	q.working[key] = true
	delete(q.added, key)
	return key, true
}

// done ends the work on a key. After an error, the key is added again: after a second, then after
// two, up to a minute.
func (q *queue) done(key string, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.working, key)
	if q.added[key] { // it has changed meanwhile
		q.waiting = append(q.waiting, key)
		q.changed.Signal()
	}
	if err == nil {
		delete(q.failed, key)
		return
	}
	time.AfterFunc(min(time.Second<<min(q.failed[key], 6), time.Minute), func() { q.add(key) })
	q.failed[key]++
}

// close ends take.
func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.changed.Broadcast()
}
