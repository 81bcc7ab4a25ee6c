package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/conformance/scenario"
)

// goClient is the test client of package client, which TestMain builds.
var goClient string

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(func() int {
		// Most scenarios wait most of the time, so more of them run at once than there are processors.
		if err := flag.Set("test.parallel", "8"); err != nil {
			panic(err)
		}
		dir, err := os.MkdirTemp("", "goclient-")
		if err != nil {
			panic(err)
		}
		defer os.RemoveAll(dir)
		goClient = filepath.Join(dir, "goclient")
		build := exec.Command("go", "build", "-o", goClient, "./goclient")
		build.Stderr = os.Stderr
		if err := build.Run(); err != nil {
			panic(err)
		}
		return m.Run()
	}())
}

func TestGoClientConforms(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, s := range scenario.All {
		for _, v := range scenario.Variants {
			if !s.Has(v) {
				continue
			}
			t.Run(s.Name+"/"+v.String(), func(t *testing.T) {
				t.Parallel()
				if err := s.Run(t.Context(), scenario.Settings{Command: []string{goClient}}, v); err != nil {
					t.Errorf("the client must: %s\n%v", s.Must, err)
				}
			})
		}
	}
}

// broken has a fault and a variant for each scenario, which must notice the fault.
var broken = map[string]struct {
	fault   string
	variant scenario.Variant
}{
	"snapshot":          {"early", watches},
	"reset-cut":         {"early", watches},
	"replay-cut":        {"no-position", watches},
	"delta-cut":         {"delta-as-replay", watches},
	"reset-restarted":   {"keep-replaced", watches},
	"reset-synced":      {"keep-replaced", watches},
	"delta-unknown":     {"strict-deletes", watches},
	"events-by-key":     {"strict-events", watches},
	"partial":           {"ignore-partial", watches},
	"partial-drained":   {"ignore-partial", watches},
	"latest":            {"no-latest", watches},
	"unknown-kinds":     {"strict-kinds", watches},
	"unknown-entries":   {"strict-entries", streams},
	"absent-values":     {"no-absence", watches},
	"ages":              {"strict-ages", watches},
	"new-epoch":         {"ignore-epochs", watches},
	"lost-position":     {"keep-position", watches},
	"restart":           {"no-state", informers},
	"restart-forgotten": {"state-elsewhere", informers},
	"restart-damaged":   {"silent-damage", informers},
	"restart-other":     {"silent-damage", informers},
	"killed":            {"position-only", informers},
	"storm":             {"no-delay", watches},
	"refusals":          {"hammer", watches},
	"final":             {"retry-final", watches},
	"drained":           {"slow-open", watches},
	"limited":           {"no-position", watches},
	"silent":            {"patient", watches},
	"half-open":         {"patient", watches},
	"reconnects":        {"lockstep", streams},
	"paused":            {"read-ahead", watches},
	"stopped":           {"leak", watches},
	"reports":           {"flood-reports", watches},
	"reports-paused":    {"eager-reports", watches},
	"reports-rejected":  {"no-errors", informers},
	"many":              {"no-sharing", streams},
	"refused-start":     {"refuse-all", streams},
}

var (
	watches   = scenario.Variant{}
	informers = scenario.Variant{Informer: true}
	streams   = scenario.Variant{Subscribe: true}
)

// brokenPatience is how long a broken client is waited for: longer than a correct one takes in these scenarios.
const brokenPatience = 15 * time.Second

// Each scenario notices a client that breaks its rule.
func TestScenariosNoticeBrokenClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, s := range scenario.All {
		b, ok := broken[s.Name]
		if !ok {
			t.Errorf("no broken client for scenario %s", s.Name)
			continue
		}
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			command := []string{goClient, "-break", b.fault}
			err := s.Run(ctx, scenario.Settings{Command: command, Patience: brokenPatience}, b.variant)
			if err == nil {
				t.Errorf("the scenario does not notice the fault %s", b.fault)
			} else {
				t.Logf("%.600s", err.Error())
			}
		})
	}
}

// README.md has exactly the scenarios.
func TestScenariosAreDocumented(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenario.All {
		row := fmt.Sprintf("| `%s` | %s | %s |\n", s.Name, s.Must, s.Why)
		before, after, found := strings.Cut(string(text), row)
		if !found {
			t.Errorf("README.md lacks %s", row)
		}
		text = []byte(before + after)
	}
	if rest := regexp.MustCompile("(?m)^\\| `[a-z-]+` \\| .* \\| .* \\|$").FindAllString(string(text[strings.Index(string(text), "## Scenarios"):]), -1); len(rest) > 0 {
		t.Errorf("README.md has unknown scenarios: %q", rest)
	}
}
