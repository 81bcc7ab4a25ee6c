package main

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/fanoutd/fanoutd/internal/ctl/pipe"
)

// needTerminal returns a usage error if the command cannot ask for confirmation.
func (t *tool) needTerminal(toSee string) error {
	if isTerminal(t.in) && isTerminal(t.stderr) {
		return nil
	}
	if toSee != "" {
		toSee = ", or --dry-run to see " + toSee
	}
	return usagef("there is no terminal to ask for confirmation; use --yes%s", toSee)
}

// agrees asks a question, and reports whether the answer is yes.
func (t *tool) agrees(ctx context.Context, question string) (bool, error) {
	if err := t.out.Flush(); err != nil {
		return false, err
	}
	fmt.Fprintf(t.stderr, "%s [y/N] ", question)
	answer, _ := pipe.Await(ctx, func() (string, error) { return bufio.NewReader(t.in).ReadString('\n') })
	if ctx.Err() != nil {
		fmt.Fprintln(t.stderr)
		return false, context.Cause(ctx)
	}
	switch strings.ToLower(strings.TrimSpace(answer)) {
	case "y", "yes":
		return true, nil
	}
	return false, nil
}
