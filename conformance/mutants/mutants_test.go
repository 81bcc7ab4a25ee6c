package mutants

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/fanoutd/fanoutd/conformance/scenario"
)

// root is the root of the repository.
const root = "../.."

// mutant is a client with a mistake.
type mutant struct {
	name     string
	file     string // relative to the folder of the sources
	old, new string // old occurs once

	// The scenario that must fail, and a part of its error.
	scenario string
	variant  scenario.Variant
	want     string
	patience time.Duration // 0: that of most scenarios
}

// client is a client whose mutants the kit must notice.
type client struct {
	mutants []mutant

	// build makes a program of a mutant in an empty folder, and returns its command.
	build func(t *testing.T, folder string, m mutant) []string
}

var clients = map[string]client{
	"go":     {goMutants, buildGo},
	"node":   {nodeMutants, buildNode},
	"python": {pythonMutants, buildPython},
}

var (
	watches   = scenario.Variant{}
	informers = scenario.Variant{Informer: true}
	streams   = scenario.Variant{Subscribe: true}
)

// How long a scenario waits for a mutant: longer than the client takes without the mistake.
const (
	patience     = 20 * time.Second
	longestPing  = 45 * time.Second // pings begin after 15 s, and are answered within 10 s
	longestDelay = 75 * time.Second // a minute, and a random delay
)

// maxRuns is how often a scenario runs at most until it notices a mutant. A busy machine may delay the mutant as if it
// kept the rule.
const maxRuns = 3

func TestMain(m *testing.M) {
	flag.Parse()
	// Most mutants wait most of the time, so more of them run at once than there are processors.
	if err := flag.Set("test.parallel", "6"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

func TestMutants(t *testing.T) {
	chosen := strings.FieldsFunc(os.Getenv("FANOUTD_TEST_MUTANTS"), func(r rune) bool { return r == ',' })
	if len(chosen) == 0 {
		t.Skip("make test-mutants, test-python and test-node run it")
	}
	for _, language := range chosen {
		c, ok := clients[language]
		if !ok {
			t.Fatalf("FANOUTD_TEST_MUTANTS: there is no client for %q", language)
		}
		for _, m := range c.mutants {
			t.Run(language+"/"+m.name, func(t *testing.T) {
				t.Parallel()
				command := c.build(t, t.TempDir(), m)
				if err := notice(t.Context(), command, m); err != nil {
					t.Error(err)
				}
			})
		}
	}
}

// notice returns an error if the scenario of a mutant does not fail as it should.
func notice(ctx context.Context, command []string, m mutant) error {
	i := slices.IndexFunc(scenario.All, func(s scenario.Scenario) bool { return s.Name == m.scenario })
	if i < 0 {
		return fmt.Errorf("there is no scenario %q", m.scenario)
	}
	settings := scenario.Settings{Command: command, Patience: cmp.Or(m.patience, patience), Exact: true}
	for range maxRuns {
		err := scenario.All[i].Run(ctx, settings, m.variant)
		switch {
		case err == nil:
		case strings.Contains(err.Error(), m.want):
			return nil
		default:
			return fmt.Errorf("got %.800w, want an error with %q", err, m.want)
		}
	}
	return fmt.Errorf("the scenario %s/%v does not notice it", m.scenario, m.variant)
}

// mutate writes the mutated file of a folder of sources to another path.
func mutate(t *testing.T, sources string, m mutant, path string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(sources, m.file))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(text), m.old); n != 1 {
		t.Fatalf("%s has %d times %q: the mutant must follow the source", m.file, n, m.old)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), m.old, m.new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// copyFolder copies the files of a folder, whose path may be a symbolic link.
func copyFolder(t *testing.T, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}
