package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"

	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// Load controls a process with watchers. Only one goroutine at a time may call its methods,
// except for Await.
type Load struct {
	process *process.Process
	in, out *os.File
	command *json.Encoder // writes to in

	messages chan Message // all messages except those about completed events; closed after the last
	reading  sync.WaitGroup

	mu        sync.Mutex // guards the following
	completed int64
	changed   chan struct{} // closed when completed grows
}

// CommandName is the command of fanoutbench that runs such a process.
const CommandName = "load"

// Start starts a process of the program and waits until all its watchers are registered.
func Start(ctx context.Context, program string, c Config) (*Load, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p, in, out, err := process.StartPiped(CommandName, program)
	if err != nil {
		return nil, err
	}
	l := &Load{process: p, in: in, out: out, command: json.NewEncoder(in), changed: make(chan struct{}), messages: make(chan Message, 4)}
	l.reading.Go(l.readMessages)
	if err := l.command.Encode(c); err != nil {
		l.Stop()
		return nil, fmt.Errorf("send the configuration to the process: %w: %s", err, p.Log())
	}
	m, err := l.next(ctx)
	if err == nil && !m.Ready {
		err = errors.New(m.Error)
	}
	if err != nil {
		l.Stop()
		return nil, fmt.Errorf("register %d watchers: %w", c.Watchers, err)
	}
	return l, nil
}

// readMessages reads the messages of the process until its output ends.
func (l *Load) readMessages() {
	defer close(l.messages)
	for messages := json.NewDecoder(l.out); ; {
		var m Message
		if err := messages.Decode(&m); err != nil {
			return
		}
		if m.Completed == 0 {
			l.messages <- m
			continue
		}
		l.mu.Lock()
		l.completed = m.Completed
		close(l.changed)
		l.changed = make(chan struct{})
		l.mu.Unlock()
	}
}

func (l *Load) next(ctx context.Context) (Message, error) {
	select {
	case <-ctx.Done():
		return Message{}, ctx.Err()
	case m, ok := <-l.messages:
		if !ok {
			return m, fmt.Errorf("the process exited: %s", l.process.Log())
		}
		return m, nil
	}
}

// Await waits until this number of events has reached all their watchers.
func (l *Load) Await(ctx context.Context, events int64) error {
	for {
		l.mu.Lock()
		completed, changed := l.completed, l.changed
		l.mu.Unlock()
		if completed >= events {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait until %d events reach all watchers, %d have: %w", events, completed, context.Cause(ctx))
		case <-l.process.Exited():
			return fmt.Errorf("the watching process exited: %s", l.process.Log())
		case <-changed:
		}
	}
}

// Watch registers the watches that were held back. It returns when the server has answered
// all of them, which may be before they have received their state.
func (l *Load) Watch(ctx context.Context) error {
	if err := l.command.Encode(Command{Watch: true}); err != nil {
		return fmt.Errorf("send the command to watch: %w", err)
	}
	m, err := l.next(ctx)
	if err == nil && !m.Ready {
		err = errors.New(m.Error)
	}
	return err
}

// Reset makes the process drop the times that it has recorded.
func (l *Load) Reset(ctx context.Context) error {
	if err := l.command.Encode(Command{Reset: true}); err != nil {
		return fmt.Errorf("send the command to reset: %w", err)
	}
	m, err := l.next(ctx)
	if err == nil && !m.Reset {
		err = fmt.Errorf("unexpected message %+v", m)
	}
	return err
}

// Report ends the watchers and returns their report.
func (l *Load) Report(ctx context.Context, written []uint32) (*Report, error) {
	if err := l.command.Encode(Command{Report: written}); err != nil {
		return nil, fmt.Errorf("ask for a report: %w", err)
	}
	m, err := l.next(ctx)
	if err == nil && m.Report == nil {
		err = fmt.Errorf("unexpected message %+v", m)
	}
	return m.Report, err
}

// Stop ends the process.
func (l *Load) Stop() {
	l.in.Close()
	l.process.Stop()
	l.reading.Wait()
	l.out.Close()
}
