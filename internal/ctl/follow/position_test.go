package follow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// A position after commands is saved at once. Other positions are saved once per interval,
// and at the end. The file is never ahead.
func TestPositionIsSavedAtOnceOnlyAfterCommands(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &PositionFile{Path: filepath.Join(t.TempDir(), "place"), WatchSpec: WatchSpec{Resource: "config"}}
		var before os.FileInfo
		replaced := 0
		// holds checks the position in the file and counts how often the file was
		// replaced.
		holds := func(revision string) {
			t.Helper()
			text, err := os.ReadFile(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(text), `"revision":`+revision+`}`) {
				t.Errorf("the file has %s, want %s", text, revision)
			}
			now, err := os.Stat(f.Path)
			if err != nil {
				t.Fatal(err)
			}
			if before == nil || !os.SameFile(before, now) {
				replaced++
			}
			before = now
		}
		save := func(revision int64, now bool) {
			t.Helper()
			if err := f.Save(client.Position{Epoch: "e", Revision: revision}, now); err != nil {
				t.Fatal(err)
			}
		}
		save(1, false) // the first position is saved at once
		holds("1")
		for r := range int64(100) {
			save(2+r, false)
			holds("1")
		}
		wait(t)
		holds("101")
		save(102, false)
		save(103, true)
		holds("103")
		wait(t)
		holds("103")
		save(104, false)
		holds("103")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		holds("104")
		if replaced != 4 {
			t.Errorf("the file was replaced %d times, want 4", replaced)
		}
		again := &PositionFile{Path: f.Path, WatchSpec: f.WatchSpec}
		if p, err := again.Load(); err != nil || p.Revision != 104 {
			t.Errorf("got %v, %v", p, err)
		}
		// A position that is already in the file is not written.
		if err := again.Save(client.Position{Epoch: "e", Revision: 104}, true); err != nil {
			t.Error(err)
		}
		holds("104")
		if replaced != 4 {
			t.Errorf("the file was replaced %d times, want 4", replaced)
		}
	})
}

// A failed write ends the watch, even if it fails only after the call.
func TestFailedWriteIsReportedByTheNextCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "gone")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		f := &PositionFile{Path: filepath.Join(dir, "place")}
		if err := f.Save(client.Position{Revision: 1}, false); err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(dir); err != nil {
			t.Fatal(err)
		}
		if err := f.Save(client.Position{Revision: 2}, false); err != nil {
			t.Fatal(err)
		}
		wait(t)
		if err := f.Save(client.Position{Revision: 3}, false); err == nil {
			t.Error("Save: got no error")
		}
		if err := f.Close(); err == nil {
			t.Error("Close: got no error")
		}
	})
}

// wait lets the interval pass on the fake clock.
func wait(t *testing.T) {
	t.Helper()
	time.Sleep(saveInterval)
	synctest.Wait()
}
