package packaging

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// file is a file of an archive or package.
type file struct {
	mode    fs.FileMode
	owner   string // user and group, if the archive has them
	content string
}

// readTar returns the files of a tar archive. Folders have names that end with a slash.
func readTar(t *testing.T, from io.Reader) map[string]file {
	t.Helper()
	files := map[string]file{}
	for r := tar.NewReader(from); ; {
		head, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		} else if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[head.Name] = file{head.FileInfo().Mode(), fmt.Sprint(head.Uid, ":", head.Gid), string(content)}
	}
}

// readTarGz returns the files of a compressed tar archive.
func readTarGz(t *testing.T, path string) map[string]file {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return readTar(t, r)
}

// readZip returns the files of a zip archive.
func readZip(t *testing.T, path string) map[string]file {
	t.Helper()
	archive, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	files := map[string]file{}
	for _, f := range archive.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[f.Name] = file{f.Mode(), "", string(content)}
	}
	return files
}

// TestArchives checks the names, modes and contents of all files in the archives of all platforms.
func TestArchives(t *testing.T) {
	dist := release(t, 0)
	for p := range strings.FieldsSeq(releases[0].platforms) {
		name := "fanoutd-" + version(t) + "-" + p
		var got map[string]file
		if strings.HasPrefix(p, "windows-") {
			got = readZip(t, released(t, name+".zip"))
		} else {
			got = readTarGz(t, released(t, name+".tar.gz"))
		}

		// The files of the server are not in the archives for Windows. Its manual is fanoutd.1.
		sources := programs(t, p)
		server := !strings.HasPrefix(p, "windows-")
		for _, page := range []string{"README.md", "LICENSE", "CHANGELOG.md"} {
			sources = append(sources, filepath.Join(root, page))
		}
		want := map[string]file{name + "/": {mode: fs.ModeDir | 0o755}, name + "/man/": {mode: fs.ModeDir | 0o755}, name + "/completions/": {mode: fs.ModeDir | 0o755}}
		manuals, err := filepath.Glob(filepath.Join(dist, "manuals/*/*"))
		if err != nil || len(manuals) < 20 {
			t.Fatalf("got manuals %q, %v", manuals, err)
		}
		for _, path := range append(sources, manuals...) {
			to := filepath.Base(path)
			if slices.Contains(manuals, path) {
				if strings.HasPrefix(to, "fanoutd") && !server {
					continue
				}
				to = filepath.Base(filepath.Dir(path)) + "/" + to
			}
			content, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			mode := fs.FileMode(0o644)
			if slices.Contains(programs(t, p), path) {
				mode = 0o755
			}
			want[name+"/"+to] = file{mode, "", string(content)}
		}
		same(t, filepath.Base(name), got, want)
	}
}

// same compares the files of an archive. An owner that is not wanted is root.
func same(t *testing.T, archive string, got, want map[string]file) {
	t.Helper()
	for name, w := range want {
		g, ok := got[name]
		switch {
		case !ok:
			t.Errorf("%s lacks %s", archive, name)
		case g.mode != w.mode || g.owner != w.owner && g.owner != "0:0":
			t.Errorf("%s: %s has mode %v and owner %s, want %v", archive, name, g.mode, g.owner, w.mode)
		case g.content != w.content:
			t.Errorf("%s: %s has another content", archive, name)
		}
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			t.Errorf("%s has %s", archive, name)
		}
	}
}
