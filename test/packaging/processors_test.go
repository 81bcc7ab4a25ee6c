package packaging

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestPackagesForOtherProcessors compares the packages for arm64 with those for amd64, which other tests install
// and read: only the programs and the named architecture differ.
func TestPackagesForOtherProcessors(t *testing.T) {
	for _, name := range []string{"fanoutd", "fanoutctl", "fanouttest"} {
		program, err := os.ReadFile(filepath.Join(release(t, 0), "linux-arm64", name))
		if err != nil {
			t.Fatal(err)
		}

		amd64, arm64 := released(t, name+"_*_amd64.deb"), released(t, name+"_*_arm64.deb")
		// In Debian's versions, what follows ~ comes before the release.
		number := strings.Replace(version(t), "-", "~", 1)
		if got := run(t, ".", nil, "dpkg-deb", "--show", "--showformat=${Package} ${Version} ${Architecture}", arm64); got != name+" "+number+" arm64" {
			t.Errorf("got package %s, want version %s", got, number)
		}
		want := debFiles(t, amd64, "--fsys-tarfile")
		installed := want["./usr/bin/"+name]
		installed.content = string(program)
		want["./usr/bin/"+name] = installed
		same(t, filepath.Base(arm64), debFiles(t, arm64, "--fsys-tarfile"), want)
		got, want := debFiles(t, arm64, "--ctrl-tarfile"), debFiles(t, amd64, "--ctrl-tarfile")
		for _, differs := range []string{"./control", "./md5sums"} {
			if got[differs].content == "" {
				t.Errorf("%s lacks %s", filepath.Base(arm64), differs)
			}
			delete(got, differs)
			delete(want, differs)
		}
		same(t, filepath.Base(arm64), got, want)

		query := func(path string, args ...string) string {
			return run(t, ".", nil, "rpm", append([]string{"--query", "--package", path}, args...)...)
		}
		amd64, arm64 = released(t, name+"-*.x86_64.rpm"), released(t, name+"-*.aarch64.rpm")
		if got := query(arm64, "--queryformat", "%{NAME} %{ARCH} %{OS}"); got != name+" aarch64 linux" {
			t.Errorf("got package %s", got)
		}
		if got, want := query(arm64, "--queryformat", "%{VERSION}-%{RELEASE}"), query(amd64, "--queryformat", "%{VERSION}-%{RELEASE}"); got != want {
			t.Errorf("got version %s, want %s", got, want)
		}
		const format = "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES} %{FILEDIGESTS}\n]"
		gotFiles, wantFiles := strings.Split(query(arm64, "--queryformat", format), "\n"), strings.Split(query(amd64, "--queryformat", format), "\n")
		i := slices.IndexFunc(wantFiles, func(line string) bool { return strings.Contains(line, " /usr/bin/"+name+" ") })
		if i < 0 {
			t.Fatalf("%s has no program", filepath.Base(amd64))
		}
		wantFiles[i] = fmt.Sprintf("-rwxr-xr-x root root /usr/bin/%s %x", name, sha256.Sum256(program))
		if !slices.Equal(gotFiles, wantFiles) {
			t.Errorf("%s has\n%s\nwant\n%s", filepath.Base(arm64), strings.Join(gotFiles, "\n"), strings.Join(wantFiles, "\n"))
		}
		for _, what := range []string{"--scripts", "--requires", "--configfiles"} {
			if got, want := query(arm64, what), query(amd64, what); got != want {
				t.Errorf("%s %s: got\n%s\nwant\n%s", filepath.Base(arm64), what, got, want)
			}
		}
	}
}

// debFiles returns the files of a deb package: its content, or what dpkg needs to install it.
func debFiles(t *testing.T, path, which string) map[string]file {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "dpkg-deb", which, path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	files := readTar(t, out)
	if _, err := io.Copy(io.Discard, out); err != nil { // the padding at the end
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return files
}
