package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime/debug"
	"sync"

	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// memoryLimit is the memory of a process from which on it collects garbage more often. A million
// watches of the Go client need more than half of it.
const memoryLimit = 12 << 30

// Run is the main function of the process. It returns after its report or at the end of
// in. It also writes to out the errors that prevent the watchers from being registered.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	debug.SetMemoryLimit(memoryLimit)
	commands := json.NewDecoder(bufio.NewReader(in))
	messages := &messageWriter{out: json.NewEncoder(out)}
	var c Config
	if err := commands.Decode(&c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	w, err := connect(ctx, c)
	if err != nil {
		return errors.Join(err, messages.write(Message{Error: err.Error()}))
	}
	defer w.close()
	if err := messages.write(Message{Ready: true}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { w.reportProgress(ctx, messages) })
	defer reporting.Wait()
	defer cancel()
	for {
		var command Command
		if err := commands.Decode(&command); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		if command.Watch {
			if err := w.watch(ctx); err != nil {
				return errors.Join(err, messages.write(Message{Error: err.Error()}))
			}
			err = messages.write(Message{Ready: true})
		}
		if command.Reset {
			w.counter.Reset()
			err = messages.write(Message{Reset: true})
		}
		if command.Report != nil {
			w.close()
			report := w.report(command.Report)
			report.CPU, report.Peak = process.Self()
			return messages.write(Message{Report: report})
		}
		if err != nil {
			return err
		}
	}
}

// reportProgress writes the number of completed events whenever it has grown.
func (w *watchers) reportProgress(ctx context.Context, messages *messageWriter) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.counter.Changed():
		}
		if err := messages.write(Message{Completed: w.counter.Completed()}); err != nil {
			return // the other end is closed
		}
	}
}

// messageWriter writes messages one at a time.
type messageWriter struct {
	mu  sync.Mutex // guards the following
	out *json.Encoder
}

func (w *messageWriter) write(m Message) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.out.Encode(m); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	return nil
}
