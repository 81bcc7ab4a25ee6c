package load

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// Run is the main function of the process. It returns after its report or when in ends. It
// also writes errors to out that happen before all watchers are registered.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	commands := json.NewDecoder(bufio.NewReader(in))
	says := &speaker{out: json.NewEncoder(out)}
	var c Config
	if err := commands.Decode(&c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	w, err := connect(ctx, c)
	if err != nil {
		return errors.Join(err, says.message(Message{Error: err.Error()}))
	}
	defer w.close()
	if err := says.message(Message{Ready: true}); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	var telling sync.WaitGroup
	telling.Go(func() { w.tell(ctx, says) })
	defer telling.Wait()
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
				return errors.Join(err, says.message(Message{Error: err.Error()}))
			}
			err = says.message(Message{Ready: true})
		}
		if command.Reset {
			w.counter.Reset()
			err = says.message(Message{Reset: true})
		}
		if command.Report != nil {
			w.close()
			report := w.report(command.Report)
			report.CPU = cpu().Microseconds()
			return says.message(Message{Report: report})
		}
		if err != nil {
			return err
		}
	}
}

// tell reports the number of completed events whenever it has grown.
func (w *watchers) tell(ctx context.Context, says *speaker) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.counter.Changed():
		}
		if err := says.message(Message{Completed: w.counter.Completed()}); err != nil {
			return // the other end is closed
		}
	}
}

// speaker writes messages one at a time.
type speaker struct {
	mu  sync.Mutex // guards the following
	out *json.Encoder
}

func (s *speaker) message(m Message) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.out.Encode(m); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	return nil
}

// cpu returns the CPU time of this process.
func cpu() time.Duration {
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
