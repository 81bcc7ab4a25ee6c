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

// What was done is in the file at once. Where nothing was, the file is replaced once for
// all that has happened in a second, and at the end; it is never ahead.
func TestFileIsWrittenWhenItMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &PositionFile{Path: filepath.Join(t.TempDir(), "place"), WatchSpec: WatchSpec{Resource: "config"}}
		var before os.FileInfo
		replaced := 0
		// holds checks which position is in the file, and counts how often it was
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
		keep := func(revision int64, done bool) {
			t.Helper()
			if err := f.Save(client.Position{Epoch: "e", Revision: revision}, done); err != nil {
				t.Fatal(err)
			}
		}
		keep(1, false) // the first one, so that there is a file
		holds("1")
		for r := range int64(100) {
			keep(2+r, false)
			holds("1")
		}
		wait(t)
		holds("101")
		keep(102, false)
		keep(103, true)
		holds("103")
		wait(t)
		holds("103")
		keep(104, false)
		holds("103")
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		holds("104")
		if replaced != 4 {
			t.Errorf("the file was replaced %d times", replaced)
		}
		again := &PositionFile{Path: f.Path, WatchSpec: f.WatchSpec}
		if p, err := again.Load(); err != nil || p.Revision != 104 {
			t.Errorf("got %v, %v", p, err)
		}
		// What is there already is not written.
		if err := again.Save(client.Position{Epoch: "e", Revision: 104}, true); err != nil {
			t.Error(err)
		}
		holds("104")
		if replaced != 4 {
			t.Error("the file was replaced by itself")
		}
	})
}

// A file that cannot be written ends the watch, even if that shows only later.
func TestFileThatCannotBeWritten(t *testing.T) {
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
			t.Error("the next position does not tell")
		}
		if err := f.Close(); err == nil {
			t.Error("the end does not tell")
		}
	})
}

// wait lets the time pass after which everything is written. The clock is not the real one.
func wait(t *testing.T) {
	t.Helper()
	time.Sleep(interval)
	synctest.Wait()
}
