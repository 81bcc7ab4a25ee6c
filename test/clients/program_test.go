package clients

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// programs are the programs with the clients of other languages. FANOUTD_TEST_CLIENTS names those that take
// part, with commas between. They need what their `make` targets install.
var programs = map[string][]string{
	"python": {"/usr/bin/python3", "../../clients/python/soak.py"},
	"node":   {"node", "../../clients/node/build/conformance/soak.js"},
}

// programSubscriber keeps a copy in a program of another language, which prints it on demand.
type programSubscriber struct {
	title   string
	command []string

	mu     sync.Mutex
	input  io.WriteCloser // nil before the program runs; guarded by mu
	output *bufio.Reader  // guarded by mu
	copy   programCopy    // the latest; guarded by mu
	broken []string       // guarded by mu
}

// programCopy is what a program prints.
type programCopy struct {
	Epoch    string            `json:"epoch"`
	Revision string            `json:"revision"`
	Pending  string            `json:"pending"`
	Objects  map[string]string `json:"objects"` // the revisions by key
}

// newProgramSubscribers returns an informer and a watch for each language that takes part.
func newProgramSubscribers(t *testing.T, servers []string) []subscriber {
	t.Helper()
	var all []subscriber
	for language := range strings.FieldsFuncSeq(os.Getenv("FANOUTD_TEST_CLIENTS"), func(r rune) bool { return r == ',' }) {
		program, ok := programs[language]
		if !ok {
			t.Fatalf("FANOUTD_TEST_CLIENTS: there is no client for %q", language)
		}
		for _, kind := range []string{"informer", "watch"} {
			command := append(program[:len(program):len(program)], strings.Join(servers, ","), cached, kind)
			all = append(all, &programSubscriber{title: language + " " + kind, command: command})
		}
	}
	return all
}

func (s *programSubscriber) name() string                             { return s.title }
func (s *programSubscriber) selection() (string, []client.ListOption) { return cached, nil }

func (s *programSubscriber) run(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := s.start(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("the program has ended: %w\n%s", errors.Join(err, errors.New("unexpected")), problems.String())
}

func (s *programSubscriber) start(cmd *exec.Cmd) error {
	input, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.input, s.output = input, bufio.NewReader(output)
	return cmd.Start()
}

// at asks the program for its copy.
func (s *programSubscriber) at() client.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.input == nil {
		return client.Position{}
	}
	if _, err := io.WriteString(s.input, "\n"); err != nil {
		return client.Position{} // the program has ended, and run returns why
	}
	line, err := s.output.ReadBytes('\n')
	if err != nil {
		return client.Position{}
	}
	s.copy = programCopy{}
	if err := json.Unmarshal(line, &s.copy); err != nil {
		s.broken = append(s.broken, fmt.Sprintf("printed %q: %v", line, err))
		return client.Position{}
	}
	revision, err := strconv.ParseInt(s.copy.Revision, 10, 64)
	if err != nil {
		s.broken = append(s.broken, fmt.Sprintf("printed %q: %v", line, err))
	}
	return client.Position{Epoch: s.copy.Epoch, Revision: revision}
}

func (s *programSubscriber) pending() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.copy.Pending
}

func (s *programSubscriber) compare(objects map[string]*client.Object) string {
	want := map[string]string{}
	for key, o := range objects {
		want[key] = strconv.FormatInt(o.ModRevision, 10)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if diff := cmp.Diff(want, s.copy.Objects); diff != "" {
		return "revisions: -list +copy:\n" + diff
	}
	return ""
}

func (s *programSubscriber) violations() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.broken
}
