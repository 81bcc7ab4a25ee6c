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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/poll"
)

// programs are the programs with the clients of other languages. FANOUTD_TEST_CLIENTS names those that take
// part, with commas between. They need what their `make` targets install.
var programs = map[string][]string{
	"python": {"/usr/bin/python3", "../../clients/python/soak.py"},
	"node":   {"node", "../../clients/node/build/conformance/soak.js"},
}

// What a program keeps a copy with.
const (
	withInformers = "informers" // two informers that share a watch
	withStateFile = "file"      // an informer with a state file
	withWatch     = "watch"
	withLists     = "list" // no copy: the program lists the objects on demand
)

// programSubscriber keeps a copy in a program of another language, which prints it on demand.
type programSubscriber struct {
	title   string
	command []string
	file    string        // the state file; "": none
	starts  chan struct{} // starts the program again
	ended   chan error    // the result of a program that the test ended

	mu     sync.Mutex
	cmd    *exec.Cmd      // nil while the program does not run; guarded by mu
	ending bool           // the test ends the program; guarded by mu
	input  io.WriteCloser // of cmd; guarded by mu
	output *bufio.Reader  // of cmd; guarded by mu
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

// languages returns the languages that take part besides Go.
func languages(t *testing.T) []string {
	t.Helper()
	all := strings.FieldsFunc(os.Getenv("FANOUTD_TEST_CLIENTS"), func(r rune) bool { return r == ',' })
	for _, language := range all {
		if programs[language] == nil {
			t.Fatalf("FANOUTD_TEST_CLIENTS: there is no client for %q", language)
		}
	}
	return all
}

// newProgramSubscribers returns informers and a watch for each language that takes part.
func newProgramSubscribers(t *testing.T, servers []string) []*programSubscriber {
	t.Helper()
	var all []*programSubscriber
	for _, language := range languages(t) {
		for _, with := range []string{withInformers, withStateFile, withWatch} {
			all = append(all, newProgramSubscriber(t, language, with, servers, bookmarks))
		}
	}
	return all
}

func newProgramSubscriber(t *testing.T, language, with string, servers []string, bookmarks time.Duration) *programSubscriber {
	t.Helper()
	command := append(slices.Clip(programs[language]), strings.Join(servers, ","), cached, with, strconv.FormatInt(bookmarks.Milliseconds(), 10))
	s := &programSubscriber{title: language + " with " + with, starts: make(chan struct{}, 1), ended: make(chan error, 1)}
	if with == withStateFile {
		s.file = filepath.Join(t.TempDir(), "state")
		command = append(command, s.file)
	}
	s.command = command
	s.start()
	return s
}

func (s *programSubscriber) name() string                             { return s.title }
func (s *programSubscriber) selection() (string, []client.ListOption) { return cached, nil }

// run runs the program, also again after the test has ended it.
func (s *programSubscriber) run(ctx context.Context) error {
	for {
		select {
		case <-s.starts:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		if err := s.runOnce(ctx); err != nil {
			return err
		}
	}
}

// runOnce runs the program until it ends. It returns no error if the test has ended the program.
func (s *programSubscriber) runOnce(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, s.command[0], s.command[1:]...)
	var problems strings.Builder
	cmd.Stderr = &problems
	if err := s.launch(cmd); err != nil {
		return err
	}
	err := cmd.Wait()
	if err != nil {
		err = fmt.Errorf("%w\n%s", err, problems.String())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cmd = nil
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case s.ending:
		s.ended <- err
		return nil
	}
	return fmt.Errorf("the program has ended: %w", errors.Join(err, errors.New("unexpected")))
}

func (s *programSubscriber) launch(cmd *exec.Cmd) error {
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
	s.cmd, s.ending, s.input, s.output = cmd, false, input, bufio.NewReader(output)
	return cmd.Start()
}

// start starts the program, which must not run.
func (s *programSubscriber) start() { s.starts <- struct{}{} }

// kill ends the program, which must run, without giving it time to save its state.
func (s *programSubscriber) kill() {
	s.mu.Lock()
	s.ending = true
	err := s.cmd.Process.Kill()
	s.mu.Unlock()
	if err == nil {
		<-s.ended
	}
}

// end makes the program, which must run, save its state and exit.
func (s *programSubscriber) end(ctx context.Context) error {
	s.mu.Lock()
	s.ending = true
	err := s.input.Close()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	select {
	case err := <-s.ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// stalePending is what the program prints as pending while its copy may be out of date.
const stalePending = "the informer is stale"

// awaitSync waits until the copy is current.
func (s *programSubscriber) awaitSync(ctx context.Context) error {
	return s.await(ctx, "current", func(at client.Position) bool { return at.Revision > 0 && s.pending() != stalePending })
}

// restartWithoutServers ends the program and starts it again, while no server can be reached. The
// program must have the same copy as before, and call it stale.
func (s *programSubscriber) restartWithoutServers(ctx context.Context) error {
	isStale := func(at client.Position) bool { return at.Revision > 0 && s.pending() == stalePending }
	if err := s.await(ctx, "stale", isStale); err != nil {
		return err
	}
	before := s.copy
	if err := s.end(ctx); err != nil {
		return err
	}
	s.start()
	if err := s.await(ctx, "stale after the restart", isStale); err != nil {
		return err
	}
	if diff := cmp.Diff(before, s.copy); diff != "" {
		return fmt.Errorf("the copy: -before +after the restart:\n%s", diff)
	}
	return nil
}

// await asks the program for its copy until it is as wanted.
func (s *programSubscriber) await(ctx context.Context, want string, ok func(client.Position) bool) error {
	ctx, cancel := context.WithTimeout(ctx, poll.Patience)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for at := s.at(); !ok(at); at = s.at() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%s: the copy is not %s: position %v, pending %q", s.title, want, at, s.pending())
		}
	}
	return nil
}

// at asks the program for its copy.
func (s *programSubscriber) at() client.Position {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cmd == nil {
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
