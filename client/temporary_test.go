package client_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// A process that is killed while it saves its state leaves a temporary file behind. The next
// one removes it, and nothing else.
func TestTemporaryFilesOfKilledProcessesAreRemoved(t *testing.T) {
	withFile(t, func(t *testing.T, path string) {
		kept := []string{".good", ".good.bak", ".good123", "good1", "good2.fanoutd-1", ".good.fanoutd-1.fanoutd-2"}
		for _, name := range append(slices.Clone(kept), ".good.fanoutd-123", ".good.fanoutd-456") {
			if err := os.WriteFile(filepath.Join(filepath.Dir(path), name), []byte("x"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		runFor(t, &scriptedServer{streams: []stream{{messages: stateAt5}}}, 20*time.Second, client.LastKnownGood(path, 1<<20))
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, e := range entries {
			names = append(names, e.Name())
		}
		want := append(kept, "good")
		slices.Sort(want)
		if diff := cmp.Diff(want, names); diff != "" {
			t.Errorf("files: -want +got:\n%s", diff)
		}
	})
}
