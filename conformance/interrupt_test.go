package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fanoutd/fanoutd/conformance/scenario"
	"github.com/fanoutd/fanoutd/test/poll"
)

func TestNoScenarioBeginsAfterAnInterrupt(t *testing.T) {
	starts := filepath.Join(t.TempDir(), "starts")
	count := func() int {
		text, _ := os.ReadFile(starts) // there is none before the first start
		return bytes.Count(text, []byte("\n"))
	}
	settings := scenario.Settings{Command: []string{"sh", "-c", "echo >> " + starts + "; exec cat"}}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan int, 1)
	go func() {
		ended <- runAll(ctx, settings, func(s scenario.Scenario, v scenario.Variant) bool { return s.Has(v) }, 1)
	}()
	poll.Until(t, "the first test client runs", func() bool { return count() == 1 })
	cancel()
	select {
	case code := <-ended:
		if n := count(); code != 1 || n != 1 {
			t.Errorf("got code %d after %d test clients, want 1 after 1", code, n)
		}
	case <-poll.Context(t).Done():
		t.Error("the kit still runs")
	}
}
