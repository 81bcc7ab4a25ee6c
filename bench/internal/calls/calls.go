package calls

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// CommandName is the command of fanoutbench that runs such a process.
const CommandName = "calls"

// Calls controls a process that makes calls. Only one goroutine at a time may call its methods.
type Calls struct {
	process  *process.Process
	in, out  *os.File
	commands *json.Encoder
	messages *json.Decoder
}

// Start starts a process of the program, and waits until it has connected.
func Start(ctx context.Context, program string, c Config) (*Calls, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	p, in, out, err := process.StartPiped(CommandName, program)
	if err != nil {
		return nil, err
	}
	calls := &Calls{process: p, in: in, out: out, commands: json.NewEncoder(in), messages: json.NewDecoder(out)}
	if _, err := calls.ask(ctx, c); err != nil {
		calls.Stop()
		return nil, fmt.Errorf("open %d connections: %w", c.Connections, err)
	}
	return calls, nil
}

// For makes calls for a duration, and waits for their answers.
func (c *Calls) For(ctx context.Context, d time.Duration) (*Report, error) {
	m, err := c.ask(ctx, Command{Duration: d})
	if err == nil && m.Report == nil {
		err = errors.New("the process sent no report")
	}
	if err != nil {
		return nil, fmt.Errorf("make calls: %w", err)
	}
	return m.Report, nil
}

// ask sends a line to the process, and returns its answer.
func (c *Calls) ask(ctx context.Context, line any) (Message, error) {
	stop := context.AfterFunc(ctx, func() { c.process.Kill() }) // ends the read
	defer stop()
	if err := c.commands.Encode(line); err != nil {
		return Message{}, fmt.Errorf("write to the process: %w: %s", err, c.process.Log())
	}
	var m Message
	if err := c.messages.Decode(&m); err != nil {
		return m, fmt.Errorf("read from the process: %w: %s", errors.Join(err, context.Cause(ctx)), c.process.Log())
	}
	if m.Error != "" {
		return m, errors.New(m.Error)
	}
	return m, nil
}

// Stop ends the process.
func (c *Calls) Stop() {
	c.in.Close()
	c.process.Stop()
	c.out.Close()
}
