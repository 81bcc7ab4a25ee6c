//go:build unix

package testclient_test

import (
	"context"
	"testing"

	"github.com/fanoutd/fanoutd/conformance/testclient"
	"github.com/fanoutd/fanoutd/test/poll"
)

// begin starts a shell as the test client, and waits for its first line.
func begin(t *testing.T, script string) *testclient.Program {
	t.Helper()
	p, err := testclient.Start([]string{"sh", "-c", script})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Lines(poll.Context(t), 0); err != nil {
		t.Fatal(err)
	}
	return p
}

// within fails if a function has not returned when the test has waited long enough.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		do()
	}()
	select {
	case <-returned:
	case <-poll.Context(t).Done():
		t.Errorf("%s has not returned", what)
	}
}

// A test client may be a script that starts the client proper, which has the same output.
func TestKillEndsWhatTheTestClientHasStarted(t *testing.T) {
	p := begin(t, `sleep 100000 & echo '{}'; cat > /dev/null; wait`)
	within(t, "Kill", p.Kill)
	if _, err := p.Lines(context.Background(), 1); err == nil {
		t.Error("got another line")
	}
}

func TestCloseDoesNotWaitForTheOutputOfOthers(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	p := begin(t, `sleep 100000 & echo '{}'; cat > /dev/null`)
	within(t, "Close", func() {
		if err := p.Close(); err == nil {
			t.Error("got no error although a process that it has started still has its output")
		}
	})
	p.Kill()
}
