package follow

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
)

// rendering runs a renderer of one file, which lists the keys of the objects.
func rendering(t *testing.T, folder string) (w fakeWatch, path string, reports *int, stop func()) {
	t.Helper()
	template := filepath.Join(t.TempDir(), "template")
	if err := os.WriteFile(template, []byte(`{{range .Objects}}{{if eq .Text "bad"}}{{.JSON}}{{end}}{{.Key}} {{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(folder, "file")
	f, err := OpenTemplate(t.Context(), path, template)
	if err != nil {
		t.Fatal(err)
	}
	w, reports = make(fakeWatch), new(int)
	r := Renderer{Files: []*TemplateFile{f}, Policy: Stop, Delay: time.Second, Report: func(error) { *reports++ }}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, w.updates) }()
	return w, path, reports, func() {
		t.Helper()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("ended with %v", err)
		}
	}
}

// A file that could not be written is written as soon as that is possible, although the
// objects do not change again. The pauses between attempts grow.
func TestAFailedWriteIsRetried(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "folder")
	synctest.Test(t, func(t *testing.T) {
		w, path, reports, stop := rendering(t, folder)
		w.replace(added("a", "1", 1))
		synctest.Wait()
		obstacle(t, folder)
		w <- live(added("b", "2", 2))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if n := *reports; n < 20 || n > 60 {
			t.Errorf("got %d failed attempts in ten minutes, want one every 15 to 30 s", n)
		}
		removeObstacle(t, folder)
		time.Sleep(retries.Most)
		synctest.Wait()
		wantFile(t, path, "a b ")

		// A change does not wait for the retry.
		obstacle(t, folder)
		w <- live(added("c", "3", 3))
		time.Sleep(10 * time.Minute)
		removeObstacle(t, folder)
		w <- live(added("d", "4", 4))
		time.Sleep(time.Second)
		synctest.Wait()
		wantFile(t, path, "a b c d ")
		stop()
	})
}

// A template that fails is not retried with the same objects.
func TestAFailedTemplateWaitsForAChange(t *testing.T) {
	folder := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w, path, reports, stop := rendering(t, folder)
		w.replace(added("a", "1", 1))
		w <- live(added("b", "bad", 2))
		time.Sleep(10 * time.Minute)
		synctest.Wait()
		if *reports != 1 {
			t.Errorf("got %d reports, want 1", *reports)
		}
		wantFile(t, path, "a ")
		w <- live(added("b", "good", 3))
		time.Sleep(time.Second)
		synctest.Wait()
		wantFile(t, path, "a b ")
		stop()
	})
}

// obstacle replaces a folder by a file, so that nothing can be written there.
func obstacle(t *testing.T, folder string) {
	t.Helper()
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(folder, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func removeObstacle(t *testing.T, folder string) {
	t.Helper()
	if err := os.Remove(folder); err != nil {
		t.Fatal(err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	if text, err := os.ReadFile(path); err != nil || string(text) != want {
		t.Errorf("got %q and %v, want %q", text, err, want)
	}
}
