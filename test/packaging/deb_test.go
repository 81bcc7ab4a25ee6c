package packaging

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// install copies the packages into the system and installs them.
func (s system) install(names ...string) {
	s.t.Helper()
	args := []string{"dpkg", "--install"}
	for _, name := range names {
		from := released(s.t, name+"_*_amd64.deb")
		run(s.t, ".", nil, "cp", from, filepath.Join(s.root, name+".deb"))
		args = append(args, "/"+name+".deb")
	}
	// Messages of dpkg and of useradd are not warnings.
	if out, err := s.command(s.t.Context(), "root", []string{"DEBIAN_FRONTEND=noninteractive"}, args...).CombinedOutput(); err != nil {
		s.t.Fatalf("%v\n%s", err, out)
	}
}

// exists reports whether a path of the system exists.
func (s system) exists(path string) bool {
	_, err := os.Lstat(filepath.Join(s.root, path))
	return err == nil
}

// TestDebianPackages installs the packages in a clean Debian, runs the server as its user, and
// removes everything.
func TestDebianPackages(t *testing.T) {
	s := newDebian(t)
	s.install("fanoutctl", "fanoutd", "fanouttest")

	// The user, the files and their modes.
	if got := s.run("getent", "passwd", "fanoutd"); !strings.Contains(got, ":/var/lib/fanoutd:/usr/sbin/nologin") {
		t.Errorf("got user %s", got)
	}
	modes := s.run("stat", "--format=%A %U %G %n", "/etc/fanoutd", "/etc/fanoutd/fanoutd.yaml", "/var/lib/fanoutd", "/usr/bin/fanoutd")
	want := "drwxr-x--- root fanoutd /etc/fanoutd\n-rw-r--r-- root root /etc/fanoutd/fanoutd.yaml\n" +
		"drwx------ fanoutd fanoutd /var/lib/fanoutd\n-rwxr-xr-x root root /usr/bin/fanoutd\n"
	if modes != want {
		t.Errorf("got\n%swant\n%s", modes, want)
	}
	if got := s.run("dpkg-query", "--show", "--showformat=${Conffiles}", "fanoutd"); !strings.HasPrefix(strings.TrimSpace(got), "/etc/fanoutd/fanoutd.yaml ") {
		t.Errorf("got configuration files %q", got)
	}
	for _, path := range []string{
		"/usr/share/man/man1/fanoutd.1.gz", "/usr/share/man/man1/fanoutctl-watch.1.gz", "/usr/share/man/man1/fanouttest.1.gz",
		"/usr/share/bash-completion/completions/fanoutctl", "/usr/share/zsh/vendor-completions/_fanoutctl",
		"/usr/share/fish/vendor_completions.d/fanoutctl.fish",
		"/etc/systemd/system/multi-user.target.wants/fanoutd.service", // the service is enabled
	} {
		if !s.exists(path) {
			t.Errorf("%s is missing", path)
		}
	}
	for _, name := range []string{"fanoutd", "fanoutctl", "fanouttest"} {
		if got := s.run(name, "--version"); !strings.HasPrefix(got, name+" ") {
			t.Errorf("got version %s", got)
		}
	}

	// The unit passes systemd's own check, and starts the server like this.
	s.run("systemd-analyze", "verify", "--man=no", "/usr/lib/systemd/system/fanoutd.service")
	server := s.serve("fanoutd:fanoutd", nil, "/usr/bin/fanoutd", "--config", "/etc/fanoutd/fanoutd.yaml")
	// Other machines cannot connect until the server is configured.
	for _, port := range []string{":7420", ":7421"} {
		if out, err := s.command(t.Context(), "nobody", nil, "fanoutctl", "resources", "--server", outside+port).CombinedOutput(); !strings.Contains(string(out), "connection refused") {
			t.Errorf("port %s: %v\n%s", port, err, out)
		}
	}
	followed := s.commands("nobody", nil, "docs/install.md", "")
	if !strings.Contains(followed, `{"rps": 100}`) {
		t.Errorf("the commands of the page printed\n%s", followed)
	}
	check := "sudo -u fanoutd "
	lines := shellLines(t, "docs/install.md")
	i := slices.IndexFunc(lines, func(line string) bool { return strings.HasPrefix(line, check) })
	if i < 0 {
		t.Fatalf("docs/install.md has no line %s", check)
	}
	if got := s.as("fanoutd", nil, strings.Fields(strings.TrimPrefix(lines[i], check))...); !strings.Contains(got, " valid\n") {
		t.Errorf("%s\nprinted %s", lines[i], got)
	}
	server.stop()

	// An upgrade keeps a changed configuration; removal keeps it and the data; purge keeps neither.
	conf := filepath.Join(s.root, "etc/fanoutd/fanoutd.yaml")
	changed := append(read(t, "deploy/packages/fanoutd.conf.yaml"), "log-format: json\n"...)
	if err := os.WriteFile(conf, changed, 0o644); err != nil {
		t.Fatal(err)
	}
	s.install("fanoutd")
	s.run("dpkg", "--remove", "fanoutd")
	if now, err := os.ReadFile(conf); err != nil || string(now) != string(changed) {
		t.Errorf("the changed configuration after a removal: %v\n%s", err, now)
	}
	data, _ := os.ReadDir(filepath.Join(s.root, "var/lib/fanoutd"))
	if s.exists("/usr/bin/fanoutd") || len(data) == 0 {
		t.Error("removal keeps the program or loses the data")
	}
	if out, err := s.command(t.Context(), "root", nil, "dpkg", "--purge", "fanoutd").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	for _, path := range []string{"/etc/fanoutd", "/var/lib/fanoutd", "/etc/systemd/system/multi-user.target.wants/fanoutd.service"} {
		if s.exists(path) {
			t.Errorf("purge leaves %s", path)
		}
	}
}

// commands runs the lines of the sh blocks of a page that begin with the prefix and fanoutctl,
// and returns their output. A watch ends after the object that exists.
func (s system) commands(user string, environ []string, page, prefix string) (output string) {
	s.t.Helper()
	ran := 0
	for _, line := range shellLines(s.t, page) {
		line, ok := strings.CutPrefix(line, prefix+"fanoutctl ")
		if !ok {
			continue
		}
		args := []string{"fanoutctl"}
		for i, part := range strings.Split(line, "'") {
			if i%2 == 1 { // in quotes
				args = append(args, part)
			} else {
				args = append(args, strings.Fields(part)...)
			}
		}
		if args[1] == "watch" {
			args = append(args, "--count", "1")
		}
		output += s.as(user, environ, args...)
		ran++
	}
	if ran < 2 {
		s.t.Errorf("%s has %d commands", page, ran)
	}
	return output
}

// shellLines returns the lines of the sh blocks of a page.
func shellLines(t *testing.T, page string) (lines []string) {
	t.Helper()
	for _, block := range strings.Split(string(read(t, page)), "```sh\n")[1:] {
		code, _, _ := strings.Cut(block, "```")
		lines = append(lines, strings.Split(strings.TrimSpace(code), "\n")...)
	}
	return lines
}

// TestRPMPackages reads the packages with rpm itself.
func TestRPMPackages(t *testing.T) {
	query := func(name string, args ...string) string {
		return run(t, ".", nil, "rpm", append([]string{"--query", "--package", released(t, name)}, args...)...)
	}
	server, tool := "fanoutd-*.x86_64.rpm", "fanoutctl-*.x86_64.rpm"
	if got := query(server, "--configfiles"); got != "/etc/fanoutd/fanoutd.yaml\n" {
		t.Errorf("got configuration files %q", got)
	}
	modes := query(server, "--queryformat", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]")
	for _, line := range []string{
		"drwxr-x--- root fanoutd /etc/fanoutd", "-rw-r--r-- root root /etc/fanoutd/fanoutd.yaml", "drwx------ fanoutd fanoutd /var/lib/fanoutd",
		"-rwxr-xr-x root root /usr/bin/fanoutd", "-rw-r--r-- root root /usr/lib/systemd/system/fanoutd.service",
		"-rw-r--r-- root root /usr/share/man/man1/fanoutd.1.gz",
	} {
		if !strings.Contains(modes, line+"\n") {
			t.Errorf("fanoutd lacks %s", line)
		}
	}
	if got := query(tool, "--list"); !strings.Contains(got, "/usr/bin/fanoutctl\n") || !strings.Contains(got, "/usr/share/zsh/site-functions/_fanoutctl\n") {
		t.Errorf("fanoutctl contains\n%s", got)
	}
	scripts := query(server, "--scripts")
	for _, part := range []string{"useradd --system", "systemctl --no-reload preset", "systemctl try-restart"} {
		if !strings.Contains(scripts, part) {
			t.Errorf("the scripts lack %q", part)
		}
	}
	for _, name := range []string{"pre", "post", "preun", "postun"} {
		run(t, root, nil, "sh", "-n", fmt.Sprintf("deploy/packages/rpm/%s", name))
	}
}
