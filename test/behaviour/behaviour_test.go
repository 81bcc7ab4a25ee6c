package behaviour

import (
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

func TestMain(m *testing.M) {
	flag.Parse()
	// Most tests wait most of the time, so more of them run at once than there are processors.
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
	code := m.Run()
	goClient.Clean()
	os.Exit(code)
}

// page has the table.
const page = "../../docs/clients/other.md"

// rows are the rows of the table, in its order, with their tests.
var rows = []struct {
	name string
	test func(*scene)
}{
	{"tls", testTLS},
	{"token", testToken},
	{"address", testAddress},
	{"proxy", testProxy},
	{"connect", testConnect},
	{"connect-all", testConnectAll},
	{"keepalive", testKeepalive},
	{"message-size", testMessageSize},
	{"instance", testInstance},

	{"deadline", testDeadline},
	{"read-retries", testReadRetries},
	{"write-once", testWriteOnce},
	{"renewal", testRenewal},
	{"turn", testTurn},
	{"update", testUpdate},
	{"no-value", testNoValue},
	{"history", testHistory},
	{"validation", testValidation},

	{"final", testFinal},
	{"out-of-range", testOutOfRange},
	{"unauthenticated", testUnauthenticated},
	{"resume-at-once", testResumeAtOnce},
	{"time-limit", testTimeLimit},
	{"draining", testDraining},
	{"backoff", testBackoff},
	{"other-server", testOtherServer},
	{"first-options", testFirstOptions},
	{"silence", testSilence},
	{"subscribe", testSubscribe},
	{"reports", testReports},
	{"clock", testClock},

	{"sync", testSync},
	{"stale", testStale},
	{"handler-retry", testHandlerRetry},
	{"fence", testFence},
	{"close", testClose},
	{"after-close", testAfterClose},
	{"bad-value", testBadValue},
	{"state-file", testStateFile},
}

// namesOfRows returns the names of the rows in the section of the page.
func namesOfRows(t *testing.T) (names []string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(text), "\n## How the clients behave\n")
	if !ok {
		t.Fatalf("%s has no section about the behaviour", page)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\|").FindAllStringSubmatch(section, -1) {
		names = append(names, m[1])
	}
	return names
}

func TestEachRowHasATest(t *testing.T) {
	var tested []string
	for _, row := range rows {
		tested = append(tested, row.name)
	}
	if names := namesOfRows(t); !slices.Equal(names, tested) {
		t.Errorf("the rows of %s are %v, and those with a test are %v", page, names, tested)
	}
}

func TestBehaviour(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	cfg := inprocess.Config(t)
	resource := config.NewResource("config")
	resource.History, resource.ValidationFile = config.NewHistory(), filepath.Join(t.TempDir(), "rules.yaml")
	certs.Write(t, resource.ValidationFile, []byte(rules))
	cfg.Resources = []config.Resource{resource}
	server := inprocess.Start(t, cfg)
	direct, err := client.New(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { direct.Close() })
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			for _, language := range languages(t) {
				t.Run(language, func(t *testing.T) {
					t.Parallel()
					row.test(&scene{T: t, language: language, server: server.Address(), config: direct.Resource("config"), prefix: row.name + "-" + language})
				})
			}
		})
	}
}

// scene is what a test of a row has.
type scene struct {
	*testing.T
	language string
	server   string           // the address of a real server
	config   *client.Resource // of the real server
	prefix   string           // of the keys of the test
}
