package main

import (
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
	{"snapshot", "early", watches, "shows a state at the position {e1 0}, which does not exist"},
	{"snapshot", "go-back", watches, "watch a goes back from"},
	{"reset-cut", "early", watches, "which does not exist"},
	{"replay-cut", "no-position", watches, "begins after <nil>"},
	{"delta-cut", "delta-as-replay", watches, " shows map["},
	{"reset-restarted", "keep-replaced", watches, `watch a shows map[a/1:"1" a/2:"2" a/3:"3"]`},
	{"reset-synced", "keep-replaced", watches, `watch a shows map[a/1:"1" a/2:"2"] at {e1 2}`},
	{"delta-unknown", "strict-deletes", watches, "deleted a/2, which is not there"},
	{"events-by-key", "strict-events", watches, `watch a shows map[a/1:"1"] at {e1 2}`},
	{"partial", "ignore-partial", watches, " shows map["},
	{"partial-drained", "ignore-partial", watches, "watch a shows map["},
	{"latest", "no-latest", watches, "does not ask for DELIVERY_LATEST"},
	{"unknown-kinds", "strict-kinds", watches, "panic: unknown kind of message"},
	{"unknown-kinds", "strict-catch-ups", watches, "panic: unknown kind of catch-up"},
	{"unknown-entries", "strict-entries", streams, "panic: unknown entry"},
	{"absent-values", "no-absence", watches, `want map[a/empty:"" a/none:(no value)`},
	{"ages", "strict-ages", watches, "panic: the message has an age"},
	{"synced", "early-sync", informers, "counts as synced or as not stale, and the server has sent no SYNCED"},
	{"stale", "never-stale", informers, "counts as synced or as not stale, and the server has sent no SYNCED"},
	{"stale", "ageless", informers, "the copy a is stale because of the age of the messages: context deadline exceeded"},
	{"objects", "no-labels", watches, `watch a shows map[`},
	{"objects", "only-text", watches, `a/bytes:(no value)`},
	{"handlers", "no-deletes", informers, "the handler gets the changes: context deadline exceeded"},
	{"replaced", "in-place", informers, "the client writes into its state file"},
	{"from-now", "now-again", watches, "begins at the present, although it needs the state"},
	{"every-event", "skip-events", watches, "does not ask for every event"},
	{"selectors", "no-selectors", watches, "watch a asks for the labels"},
	{"token", "fixed-token", watches, "watch a is failed UNAUTHENTICATED"},
	{"endless-delay", "stay-away", watches, "the client comes back although RetryInfo says a year: context deadline exceeded"},
	{"backoff", "fixed-delay", watches, "the mean delay of many clients is"},
	{"backoff", "never-reset", watches, "after streams that have lasted"},
	{"proxy", "trust-proxies", watches, "watch a is failed"},
	{"keepalive", "no-pings", watches, "the client pings, and opens watch a on another connection: context deadline exceeded"},
	{"stop-crossing", "strict-ids", streams, "panic: an entry of a watch that was stopped"},
	{"slow-returns", "never-back", streams, "the client opens watch slow: context deadline exceeded"},
	{"new-epoch", "ignore-epochs", watches, `watch a shows map[a/2:"other" a/3:"3"] at {e1 5}`},
	{"lost-position", "keep-position", watches, "want one of [<nil>]"},
	{"restart", "no-state", informers, "watch a shows the state at"},
	{"restart-forgotten", "state-elsewhere", informers, "want one of [<nil>]"},
	{"restart-damaged", "silent-damage", informers, "watch a is damaged: context deadline exceeded"},
	{"restart-other", "silent-damage", informers, "watch b is damaged: context deadline exceeded"},
	{"killed", "position-only", informers, "watch a shows map[] at"},
	{"storm", "no-delay", watches, "and RetryInfo says 700ms"},
	{"refusals", "hammer", watches, "6 attempts take only"},
	{"final", "retry-final", watches, "watch PERMISSION_DENIED is failed: context deadline exceeded"},
	{"drained", "slow-open", watches, "after resume_at_once the client waits"},
	{"drained", "same-connection", watches, "on another connection"},
	{"limited", "no-position", watches, "begins after <nil>"},
	{"silent", "patient", watches, "the client gives up after"},
	{"silent", "impatient", watches, "the client gives up after"},
	{"silent", "hasty", watches, "after it has opened a stream"},
	{"silent", "same-connection", watches, "watch a does not resume on another connection"},
	{"half-open", "same-connection", watches, "on another connection after a silence: context deadline exceeded"},
	{"reconnects", "fixed-delay", watches, "the middle half of many clients returns within"},
	{"reconnects-drained", "always-at-once", watches, "the middle half of many clients returns within"},
	{"reconnects-storm", "exact-delay", watches, "the middle half of many clients returns within"},
	{"paused", "read-ahead", watches, "and its application takes nothing"},
	{"stopped", "leak", streams, "the client ends the watch at the server: context deadline exceeded"},
	{"reports", "flood-reports", watches, "reports within"},
	{"reports", "no-announcement", watches, "does not say at the start of the watch that it reports"},
	{"reports-paused", "eager-reports", watches, "which its application has not taken"},
	{"reports-reconnected", "late-return", streams, "the client opens the watch again while its application is paused: context deadline exceeded"},
	{"reports-reconnected", "first-reports", streams, "as applied: context deadline exceeded"},
	{"reports-rejected", "no-errors", informers, "the client reports the error: context deadline exceeded"},
	{"reports-rejected", "report-past-error", informers, "and its application rejects revision"},
	{"reports-rejected", "no-keys", informers, `the client reports an error with the failed keys ["a/1"]: context deadline exceeded`},
	{"reports-rejected-many", "first-keys", informers, "the client reports that it has attempted all objects: context deadline exceeded"},
	{"many", "no-sharing", streams, "the watches use several streams"},
	{"refused-start", "refuse-all", streams, "watch a shows the state at"},
	{"refused-start", "early-restart", streams, "the client starts a watch again after"},
}

type brokenClient struct {
	scenario, fault string
	variant         scenario.Variant
	want            string
}

var (
	watches   = scenario.Variant{}
	informers = scenario.Variant{Informer: true}
	streams   = scenario.Variant{Subscribe: true}
)

// brokenPatience is how long a broken client is waited for: longer than a correct one takes in these scenarios.
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
			settings := scenario.Settings{Command: []string{goClient, "-break", b.fault}, Patience: brokenPatience, Exact: true}
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
