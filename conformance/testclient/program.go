package testclient

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/conformance/load"
)

// exitTimeout is how long a test client may take to end after its input has ended. When it has ended, processes that
// it has started get as long to close its output.
const exitTimeout = 10 * time.Second

// maxLine is the size of the longest line of output.
const maxLine = 16 << 20

// Program is a running test client.
type Program struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	done  chan struct{} // closed when the program has ended
	err   error         // how it ended; valid after done
	log   lockedBuffer

	mu      sync.Mutex
	lines   []Line
	fault   error         // of the output
	changed chan struct{} // closed and replaced at each line; guarded by mu, like lines and fault
}

// Start starts a test client.
func Start(command []string) (*Program, error) {
	p := &Program{cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{}), changed: make(chan struct{})}
	stdout, lines := io.Pipe()
	p.cmd.Stdout, p.cmd.Stderr, p.cmd.WaitDelay = lines, &p.log, exitTimeout
	ownGroup(p.cmd)
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("start the test client: %w", err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start the test client: %w", err)
	}
	var reading sync.WaitGroup
	reading.Go(func() { p.read(stdout) })
	go func() {
		defer close(p.done)
		p.err = p.cmd.Wait()
		lines.Close()
		reading.Wait()
	}()
	return p, nil
}

// read reads the output to its end.
func (p *Program) read(stdout io.Reader) {
	scanner := bufio.NewScanner(stdout)
	scanner.Buffer(nil, maxLine)
	for scanner.Scan() {
		var line Line
		decoder := json.NewDecoder(bytes.NewReader(scanner.Bytes()))
		decoder.DisallowUnknownFields()
		err := decoder.Decode(&line)
		if err != nil {
			err = fmt.Errorf("the test client printed %.200q: %w", scanner.Text(), err)
		}
		p.add(line, err)
	}
	if err := scanner.Err(); err != nil {
		p.add(Line{}, fmt.Errorf("read the output of the test client: %w", err))
		_, _ = io.Copy(io.Discard, stdout) // so that the program can end
	}
}

func (p *Program) add(line Line, fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fault == nil {
		p.lines = append(p.lines, line)
	} else if p.fault == nil {
		p.fault = fault
	}
	close(p.changed)
	p.changed = make(chan struct{})
}

// Send sends a command.
func (p *Program) Send(c Command) error {
	line, err := json.Marshal(c)
	if err != nil {
		return fmt.Errorf("send a command: %w", err)
	}
	if _, err := p.stdin.Write(append(line, '\n')); err != nil {
		select {
		case <-p.done: // how it has ended says more
			return p.Ended()
		case <-time.After(load.Scale(exitTimeout)):
			return fmt.Errorf("send %s to the test client: %w", line, err)
		}
	}
	return nil
}

// Done is closed when the program has ended, and all its lines were read.
func (p *Program) Done() <-chan struct{} { return p.done }

// Ended returns an error that says how the program has ended. Done is closed.
func (p *Program) Ended() error {
	return fmt.Errorf("the test client has ended: %v", p.cmd.ProcessState)
}

// Fault returns an error if the program has printed something else than lines.
func (p *Program) Fault() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault
}

// Lines returns the lines that were printed, from the given number on. It waits until there is one, and
// returns an error when ctx or the program ends or prints something else.
func (p *Program) Lines(ctx context.Context, from int) ([]Line, error) {
	for {
		p.mu.Lock()
		lines, fault, changed := p.lines[from:], p.fault, p.changed
		p.mu.Unlock()
		switch {
		case fault != nil:
			return nil, fault
		case len(lines) > 0:
			return lines, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-p.done:
			p.mu.Lock()
			more := len(p.lines) > from
			p.mu.Unlock()
			if !more {
				return nil, p.Ended()
			}
		}
	}
}

// Close ends the input, and waits for the end of the program. It returns an error unless the program ends
// with status 0 in time.
func (p *Program) Close() error {
	err := p.stdin.Close()
	switch {
	case errors.Is(err, os.ErrClosed): // by the end of the program
		<-p.done
		return p.Ended()
	case err != nil:
		return fmt.Errorf("end the input of the test client: %w", err)
	}
	timeout := load.Scale(exitTimeout)
	select {
	case <-p.done:
		if p.err != nil {
			return fmt.Errorf("the test client ends with an error: %w", p.err)
		}
		return nil
	case <-time.After(timeout):
		p.Kill()
		return fmt.Errorf("the test client does not end within %v after its input", timeout)
	}
}

// Kill ends the program at once, with the processes that it has started.
func (p *Program) Kill() {
	killGroup(p.cmd.Process)
	<-p.done
}

// Log returns what the program has written to standard error.
func (p *Program) Log() string { return p.log.String() }

// lockedBuffer is a buffer for any number of goroutines.
type lockedBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer // guarded by mu
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
