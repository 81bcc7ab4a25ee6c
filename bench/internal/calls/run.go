package calls

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// Message is a message of the process: its readiness, and then an answer to each command.
type Message struct {
	Error  string  `json:"error,omitempty"` // why the process failed
	Report *Report `json:"report,omitempty"`
}

// Command is a command to the process.
type Command struct {
	Duration time.Duration `json:"duration_ns"` // of the calls
}

// Report has the results of a command.
type Report struct {
	Each    delivery.Summary `json:"each"` // the time of a call
	Elapsed time.Duration    `json:"elapsed_ns"`
	CPU     int64            `json:"cpu_us"` // CPU time of the process
}

// Run is the main function of the process. It returns at the end of in.
func Run(ctx context.Context, in io.Reader, out io.Writer) error {
	commands, messages := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var c Config
	if err := commands.Decode(&c); err != nil {
		return fmt.Errorf("read the configuration: %w", err)
	}
	all, err := connect(ctx, c)
	if err != nil {
		return errors.Join(err, messages.Encode(Message{Error: err.Error()}))
	}
	defer all.close()
	if err := messages.Encode(Message{}); err != nil {
		return fmt.Errorf("write a message: %w", err)
	}
	for {
		var command Command
		if err := commands.Decode(&command); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return fmt.Errorf("read a command: %w", err)
		}
		before, _ := process.Self()
		report, err := all.callFor(command.Duration)
		if err != nil {
			return errors.Join(err, messages.Encode(Message{Error: err.Error()}))
		}
		after, _ := process.Self()
		report.CPU = after - before
		if err := messages.Encode(Message{Report: report}); err != nil {
			return fmt.Errorf("write a message: %w", err)
		}
	}
}
