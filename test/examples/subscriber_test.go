package examples

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// languages has the command of the example in each language.
var languages = map[string][]string{
	"python": {"/usr/bin/python3", root + "/examples/python/main.py"},
	"node":   {"node", root + "/examples/node/main.js"},
}

// inEachLanguage runs a test with the example in each language.
func inEachLanguage(t *testing.T, test func(t *testing.T, language string)) {
	t.Parallel()
	for language := range languages {
		t.Run(language, func(t *testing.T) {
			t.Parallel()
			test(t, language)
		})
	}
}

// subscriber is a running example.
type subscriber struct {
	*process
	lines *lines
	read  int // the number of lines that next has seen
}

// line is a line of output of an example.
type line struct {
	What     string `json:"what"`
	Kind     string `json:"kind"`     // of a catch-up
	Key      string `json:"key"`      // of a change
	Text     string `json:"text"`     // after a change
	Data     []byte `json:"data"`     // after a change
	Objects  int    `json:"objects"`  // how many there are
	Revision int64  `json:"revision"` // of the object or the position
	Why      string `json:"why"`      // something went wrong
}

// String returns the line in short, or "" if the line is not about the state.
func (l line) String() string {
	switch l.What {
	case "catch-up":
		return l.Kind
	case "added", "modified":
		return fmt.Sprintf("%s %s=%.20s", l.What, l.Key, l.Text+string(l.Data))
	case "deleted":
		return l.What + " " + l.Key
	case "begin", "synced", "end":
		return fmt.Sprintf("%s %d", l.What, l.Objects)
	case "refused", "damaged":
		return l.What
	}
	return ""
}

// stateFile returns a path for the state file of a subscriber.
func stateFile(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "state.json")
}

// bookmarks is the bookmark interval in seconds. After three silent intervals a subscriber
// takes the server for dead, so it must not be short on a busy machine.
const bookmarks = "2"

// subscribe starts the example in a language.
func subscribe(t *testing.T, language string, s *server, file, resource, prefix string) *subscriber {
	t.Helper()
	args := []string{"--state", file, "--bookmarks", bookmarks, s.link.address, resource, prefix}
	out := &lines{more: make(chan struct{})}
	return &subscriber{process: start(t, out, append(languages[language], args...)...), lines: out}
}

// next waits for the next line for which the condition holds.
func (s *subscriber) next(t *testing.T, condition func(line) bool) line {
	t.Helper()
	late, exited := time.After(timeout), s.exited
	for {
		all, more := s.lines.all(t)
		for s.read < len(all) {
			s.read++
			if l := all[s.read-1]; condition(l) {
				return l
			}
		}
		if exited == nil {
			t.Fatalf("the subscriber ended before the expected line; it printed\n%s", s.lines.text())
		}
		select {
		case <-more:
		case <-exited:
			exited = nil // read the last lines
		case <-late:
			t.Fatalf("the expected line did not come in time; the subscriber printed\n%s", s.lines.text())
		}
	}
}

// until waits for a line of one kind.
func (s *subscriber) until(t *testing.T, what string) line {
	t.Helper()
	return s.next(t, func(l line) bool { return l.What == what })
}

// expect compares the next lines about the state with the wanted ones.
func (s *subscriber) expect(t *testing.T, want ...string) {
	t.Helper()
	for i, w := range want {
		if got := s.next(t, func(l line) bool { return l.String() != "" }).String(); got != w {
			t.Fatalf("line %d: got %q, want %q of %q; the subscriber printed\n%s", i, got, w, want, s.lines.text())
		}
	}
}

// lines collects the output of an example.
type lines struct {
	mu      sync.Mutex
	printed strings.Builder // guarded by mu
	more    chan struct{}   // closed at the next output; guarded by mu
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.more)
	l.more = make(chan struct{})
	return l.printed.Write(b)
}

func (l *lines) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return shortened(l.printed.String())
}

// shortened cuts long lines.
func shortened(text string) string {
	all := strings.Split(text, "\n")
	for i := range all {
		all[i] = fmt.Sprintf("%.300s", all[i])
	}
	return strings.Join(all, "\n")
}

// all returns the complete lines so far, and a channel that is closed when there may be
// more.
func (l *lines) all(t *testing.T) ([]line, <-chan struct{}) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []line
	for text := range strings.Lines(l.printed.String()) {
		var one line
		if !strings.HasSuffix(text, "\n") {
			break
		}
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%v in %.300q", err, text)
		}
		all = append(all, one)
	}
	return all, l.more
}

// saved is the content of a state file.
type saved struct {
	Watch struct {
		Resource string `json:"resource"`
		Prefix   string `json:"prefix"`
	} `json:"watch"`
	State string `json:"state"` // a ListResponse in base64
}

// load returns the state in a file.
func load(t *testing.T, file string) *fanoutv1.ListResponse {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var s saved
	if err := json.Unmarshal(text, &s); err != nil {
		t.Fatal(err)
	}
	binary, err := base64.StdEncoding.DecodeString(s.State)
	if err != nil {
		t.Fatal(err)
	}
	list := new(fanoutv1.ListResponse)
	if err := proto.Unmarshal(binary, list); err != nil {
		t.Fatal(err)
	}
	return list
}

// store writes a state into a file.
func store(t *testing.T, file, resource, prefix string, list *fanoutv1.ListResponse) {
	t.Helper()
	binary, err := proto.Marshal(list)
	if err != nil {
		t.Fatal(err)
	}
	s := saved{State: base64.StdEncoding.EncodeToString(binary)}
	s.Watch.Resource, s.Watch.Prefix = resource, prefix
	text, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
