package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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

// broken has clients that break a rule, and a part of the error with which the scenario of the rule must fail.
var broken = []brokenClient{
	{"snapshot", "early", watches, "shows a state at the position {e1 0}, which does not exist", 0},
	{"snapshot", "go-back", watches, "watch a goes back from", 0},
	{"reset-cut", "early", watches, "which does not exist", 0},
	{"replay-cut", "no-position", watches, "begins after <nil>", 0},
	{"delta-cut", "delta-as-replay", watches, " shows map[", 0},
	{"reset-restarted", "keep-replaced", watches, `watch a shows map[a/1:"1" a/2:"2" a/3:"3"]`, 0},
	{"reset-synced", "keep-replaced", watches, `watch a shows map[a/1:"1" a/2:"2"] at {e1 2}`, 0},
	{"delta-unknown", "strict-deletes", watches, "deleted a/2, which is not there", 0},
	{"events-by-key", "strict-events", watches, `watch a shows map[a/1:"1"] at {e1 2}`, 0},
	{"partial", "ignore-partial", watches, " shows map[", 0},
	{"partial-drained", "ignore-partial", watches, "watch a shows map[", 0},
	{"after-draining", "ignore-draining", watches, "begins after", 0},
	{"latest", "no-latest", watches, "does not ask for DELIVERY_LATEST", 0},
	{"unknown-kinds", "strict-kinds", watches, "panic: unknown kind of message", 0},
	{"unknown-kinds", "strict-catch-ups", watches, "panic: unknown kind of catch-up", 0},
	{"unknown-entries", "strict-entries", streams, "panic: unknown entry", 0},
	{"absent-values", "no-absence", watches, `want map[a/empty:"" a/none:(no value)`, 0},
	{"ages", "strict-ages", watches, "panic: the message has an age", 0},
	{"synced", "early-sync", informers, "counts as synced or as not stale, and the server has sent no SYNCED", 0},
	{"stale", "never-stale", informers, "counts as synced or as not stale, and the server has sent no SYNCED", 0},
	{"stale", "ageless", informers, "the copy a is stale because of the age of the messages: context deadline exceeded", 0},
	{"objects", "no-labels", watches, `watch a shows map[`, 0},
	{"objects", "only-text", watches, `a/bytes:(no value)`, 0},
	{"handlers", "no-deletes", informers, "the handler gets the changes: context deadline exceeded", 0},
	{"replaced", "in-place", informers, "the client writes into its state file", 0},
	{"from-now", "now-again", watches, "begins at the present, although it needs the state", 0},
	{"every-event", "skip-events", watches, "does not ask for every event", 0},
	{"selectors", "no-selectors", watches, "watch a asks for the labels", 0},
	{"token", "fixed-token", watches, "watch a is failed", 0},
	{"endless-delay", "stay-away", watches, "the client comes back although RetryInfo says a year: context deadline exceeded", 75 * time.Second},
	{"backoff", "fixed-delay", watches, "the mean delay of many clients is", 0},
	{"backoff", "never-reset", watches, "after streams that have lasted", 0},
	{"proxy", "trust-proxies", watches, "watch a is failed", 0},
	{"keepalive", "no-pings", watches, "the client pings, and opens watch a on another connection: context deadline exceeded", time.Minute},
	{"stop-crossing", "strict-ids", streams, "panic: an entry of a watch that was stopped", 0},
	{"slow-returns", "never-back", streams, "the client opens watch slow: context deadline exceeded", 0},
	{"new-epoch", "ignore-epochs", watches, `watch a shows map[a/2:"other" a/3:"3"] at {e1 5}`, 0},
	{"lost-position", "keep-position", watches, "want one of [<nil>]", 0},
	{"restart", "no-state", informers, "watch a shows the state at", 0},
	{"restart-forgotten", "state-elsewhere", informers, "want one of [<nil>]", 0},
	{"restart-damaged", "silent-damage", informers, "watch a is damaged: context deadline exceeded", 0},
	{"restart-other", "silent-damage", informers, "watch b is damaged: context deadline exceeded", 0},
	{"killed", "position-only", informers, "watch a shows map[] at", 0},
	{"storm", "no-delay", watches, "and RetryInfo says 700ms", 0},
	{"refusals", "hammer", watches, "6 attempts take only", 0},
	{"final", "retry-final", watches, "watch PERMISSION_DENIED is failed: context deadline exceeded", 0},
	{"drained", "slow-open", watches, "after resume_at_once the client waits", 0},
	{"drained", "same-connection", watches, "on another connection", 0},
	{"limited", "no-position", watches, "begins after <nil>", 0},
	{"silent", "patient", watches, "the client gives up after", 0},
	{"silent", "impatient", watches, "the client gives up after", 0},
	{"silent", "hasty", watches, "after it has opened a stream", 0},
	{"silent", "same-connection", watches, "watch a does not resume on another connection", 0},
	{"half-open", "same-connection", watches, "on another connection after a silence: context deadline exceeded", 0},
	{"reconnects", "fixed-delay", watches, "the middle half of many clients returns within", 0},
	{"reconnects-drained", "always-at-once", watches, "the middle half of many clients returns within", 0},
	{"reconnects-storm", "exact-delay", watches, "the middle half of many clients returns within", 0},
	{"paused", "read-ahead", watches, "and its application takes nothing", 0},
	{"stopped", "leak", streams, "the client ends the watch at the server: context deadline exceeded", 0},
	{"reports", "flood-reports", watches, "reports within", 0},
	{"reports", "no-announcement", watches, "does not say at the start of the watch that it reports", 0},
	{"reports-paused", "eager-reports", watches, "which its application has not taken", 0},
	{"reports-reconnected", "late-return", streams, "the client opens the watch again while its application is paused: context deadline exceeded", 0},
	{"reports-reconnected", "late-return", watches, "the client opens the watch again while its application is paused: context deadline exceeded", 0},
	{"reports-reconnected", "first-reports", streams, "as applied: context deadline exceeded", 0},
	{"reports-rejected", "no-errors", informers, "the client reports the error: context deadline exceeded", 0},
	{"reports-rejected", "report-past-error", informers, "and its application rejects revision", 0},
	{"reports-rejected", "no-keys", informers, `the client reports an error with the failed keys ["a/1"]: context deadline exceeded`, 0},
	{"reports-rejected-many", "first-keys", informers, "the client reports that it has attempted all objects: context deadline exceeded", 0},
	{"many", "no-sharing", streams, "the watches use several streams", 0},
	{"refused-start", "refuse-all", streams, "watch a shows the state at", 0},
	{"refused-start", "early-restart", streams, "the client starts a watch again after", 0},
}

type brokenClient struct {
	scenario, fault string
	variant         scenario.Variant
	want            string
	patience        time.Duration // 0: brokenPatience
}

var (
	watches   = scenario.Variant{}
	informers = scenario.Variant{Informer: true}
	streams   = scenario.Variant{Subscribe: true}
)

// brokenPatience is how long most broken clients are waited for: longer than a correct one takes in their scenarios.
const brokenPatience = 25 * time.Second

// brokenRuns is how often a scenario runs at most until it notices a broken client. A busy machine may delay the client
// as if it kept the rule.
const brokenRuns = 3

// Each scenario notices clients that break its rules, for the right reason.
func TestScenariosNoticeBrokenClients(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	all := map[string]scenario.Scenario{}
	for _, s := range scenario.All {
		all[s.Name] = s
		if !slices.ContainsFunc(broken, func(b brokenClient) bool { return b.scenario == s.Name }) {
			t.Errorf("no broken client for scenario %s", s.Name)
		}
	}
	for _, b := range broken {
		t.Run(b.scenario+"/"+b.fault, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			settings := scenario.Settings{Command: []string{goClient, "-break", b.fault}, Patience: cmp.Or(b.patience, brokenPatience), Exact: true}
			var err error
			for n := 0; n < brokenRuns && err == nil; n++ {
				err = all[b.scenario].Run(ctx, settings, b.variant)
			}
			switch {
			case err == nil:
				t.Errorf("the scenario does not notice the fault %s", b.fault)
			case !strings.Contains(err.Error(), b.want):
				t.Errorf("got %.600v, want an error with %q", err, b.want)
			}
			t.Logf("%.300v", err)
		})
	}
}

// A test client that ends is noticed at once, whatever the kit waits for.
func TestEndOfTheTestClientIsNoticed(t *testing.T) {
	for _, command := range [][]string{{"false"}, {"sh", "-c", "read line; exit 3"}} {
		err := scenario.All[0].Run(t.Context(), scenario.Settings{Command: command}, watches)
		if err == nil || !strings.Contains(err.Error(), "the test client has ended: exit status") || strings.Contains(err.Error(), "standard error") {
			t.Errorf("%q: got %v, want that the test client has ended, and no empty log", command, err)
		}
	}
}

// README.md has exactly the scenarios.
func TestScenariosAreDocumented(t *testing.T) {
	text, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range scenario.All {
		row := fmt.Sprintf("| `%s` | `%s` | %s | %s |\n", s.Name, s.Variants(), s.Must, s.Why)
		before, after, found := strings.Cut(string(text), row)
		if !found {
			t.Errorf("README.md lacks %s", row)
		}
		text = []byte(before + after)
	}
	if rest := regexp.MustCompile("(?m)^\\| `[a-z-]+` \\| `.*` \\| .* \\| .* \\|$").FindAllString(string(text[strings.Index(string(text), "## Scenarios"):]), -1); len(rest) > 0 {
		t.Errorf("README.md has unknown scenarios: %q", rest)
	}
}
