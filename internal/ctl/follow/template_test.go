package follow

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
)

// The documentation has a table of the functions.
func TestFunctionsAreDocumented(t *testing.T) {
	text, err := os.ReadFile("../../../docs/reference/fanoutctl.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "| function | what |")
	table, _, _ := strings.Cut(rest, "\n\n")
	documented := map[string]bool{}
	for _, m := range regexp.MustCompile("`([a-zA-Z0-9]+) [A-Z ]+`").FindAllStringSubmatch(table, -1) {
		documented[m[1]] = true
	}
	if got, want := slices.Sorted(maps.Keys(documented)), slices.Sorted(maps.Keys(functions)); !slices.Equal(got, want) {
		t.Errorf("documented functions: got %v, want %v", got, want)
	}
}

// A reader that has the file open while it is replaced sees the old or the new content. A
// template that fails half way leaves the file unchanged.
func TestFileIsReplacedAtomically(t *testing.T) {
	dir := t.TempDir()
	path, template := filepath.Join(dir, "file"), filepath.Join(dir, "template")
	if err := os.WriteFile(template, []byte(`{{range .Objects}}{{.JSON.a}} {{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := OpenTemplate(t.Context(), path, template)
	if err != nil {
		t.Fatal(err)
	}
	render := func(values ...string) (bool, error) {
		var objects []*client.Object
		for _, v := range values {
			objects = append(objects, &client.Object{Key: "k", Value: []byte(v)})
		}
		return f.Render(newTemplateData("config", objects))
	}
	if changed, err := render(`{"a":1}`); !changed || err != nil {
		t.Fatal(changed, err)
	}
	before, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer before.Close()
	if changed, err := render(`{"a":1}`); changed || err != nil {
		t.Error("a file with the same content was replaced", err)
	}
	for _, bad := range []string{`{"b":1}`, `no JSON`} {
		if changed, err := render(`{"a":2}`, bad); changed || err == nil {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if changed, err := render(`{"a":9007199254740993}`, `{"a":1.5}`, `{"a":1e400}`); !changed || err != nil {
		t.Fatal(changed, err)
	}
	old := make([]byte, 100)
	n, _ := before.Read(old)
	now, err := os.ReadFile(path)
	if err != nil || string(old[:n]) != "1 " || string(now) != "9007199254740993 1.5 1e400 " {
		t.Errorf("%q, then %q, %v", old[:n], now, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Errorf("got files %v, %v, want the file and the template", entries, err)
	}
}

// A change is reported until Notified is called, across processes.
func TestChangesAreReportedUntilNotified(t *testing.T) {
	dir := t.TempDir()
	path, template := filepath.Join(dir, "new", "file"), filepath.Join(dir, "template")
	if err := os.WriteFile(template, []byte(`{{len .Objects}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	render := func(notify bool, objects int) (*TemplateFile, bool) {
		t.Helper()
		f, err := OpenTemplate(t.Context(), path, template)
		if err != nil {
			t.Fatal(err)
		}
		f.Notify = notify
		changed, err := f.Render(templateData{Objects: make([]templateObject, objects)})
		if err != nil {
			t.Fatal(err)
		}
		return f, changed
	}
	for range 3 {
		if _, changed := render(true, 1); !changed {
			t.Error("a pending change was not reported")
		}
	}
	if _, changed := render(false, 1); changed {
		t.Error("a change was reported without Notify")
	}
	f, _ := render(true, 1)
	for range 2 {
		if err := f.Notified(); err != nil {
			t.Error(err)
		}
		if _, changed := render(true, 1); changed {
			t.Error("a change was reported after Notified")
		}
	}
	if _, changed := render(false, 2); !changed {
		t.Error("a changed file was not reported")
	}
	if _, changed := render(true, 2); changed {
		t.Error("a change that was rendered without Notify was reported")
	}
}
