package packaging

import (
	"bufio"
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// missing skips the test because this machine lacks something. CI must have everything.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") == "true" {
		t.Fatalf("%s; test/packaging/install installs what is needed", what)
	}
	t.Skipf("%s; test/packaging/install installs what is needed", what)
}

// system is a root directory in which programs run as on a machine of its own: it has its own
// /proc, its own name, and its own network, with the addresses 127.0.0.1 and outside.
type system struct {
	t    *testing.T
	root string
	pid  string // of the process that keeps the namespaces
}

// outside is an address that other machines could reach.
const outside = "192.0.2.1"

// newSystem runs programs in the root directory until the test ends.
func newSystem(t *testing.T, root string) system {
	t.Helper()
	if os.Geteuid() != 0 {
		missing(t, "only root can run programs in a root directory")
	}
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o755); err != nil {
		t.Fatal(err)
	}
	return system{t, root, keep(t, `mount -t proc proc "$0/proc" && ip link set lo up && ip address add "$1" dev lo`, root, outside)}
}

// keep runs the commands of a shell in new namespaces, which stay until the test ends. It returns the process that
// keeps them.
func keep(t *testing.T, script string, args ...string) (pid string) {
	t.Helper()
	// The process ends with its standard input.
	enter := []string{"--net", "--mount", "--uts", "sh", "-c", script + ` && echo ready && read -r _`}
	keep := exec.Command("unshare", append(enter, args...)...)
	keep.Stderr = t.Output()
	in, err := keep.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := keep.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := keep.Start(); err != nil {
		missing(t, err.Error())
	}
	t.Cleanup(func() {
		in.Close()
		_ = keep.Wait() // reading to the end of the input fails
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("cannot make namespaces for %q: %q, %v", args, line, err)
	}
	return strconv.Itoa(keep.Process.Pid)
}

// newDebian returns a clean Debian with systemd, which does not run.
func newDebian(t *testing.T) system {
	t.Helper()
	archive := filepath.Join(root, "bin/debian.tar")
	if _, err := os.Stat(archive); err != nil {
		missing(t, "there is no clean Debian")
	}
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o755); err != nil { // the system has other users
		t.Fatal(err)
	}
	if os.Geteuid() == 0 {
		run(t, ".", nil, "tar", "-x", "-p", "--numeric-owner", "-f", archive, "-C", folder)
	}
	return newSystem(t, folder)
}

// command returns a command of the system. The user is a name, or numbers such as 1:1.
func (s system) command(ctx context.Context, user string, environ []string, args ...string) *exec.Cmd {
	chroot, err := exec.LookPath("chroot") // the program, not one of the system
	if err != nil {
		missing(s.t, err.Error())
	}
	enter := []string{"--target", s.pid, "--net", "--mount", "--uts", chroot, "--userspec=" + user, s.root}
	cmd := exec.CommandContext(ctx, "nsenter", append(enter, args...)...)
	cmd.Env = append([]string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/", "LC_ALL=C"}, environ...)
	return cmd
}

// run runs a command as root and returns its output. It must not print warnings.
func (s system) run(args ...string) string {
	s.t.Helper()
	return s.as("root", nil, args...)
}

func (s system) as(user string, environ []string, args ...string) string {
	s.t.Helper()
	cmd := s.command(s.t.Context(), user, environ, args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		s.t.Fatalf("%s: %v\n%s%s", strings.Join(args, " "), err, out, &stderr)
	}
	return string(out)
}

// service is a running server that reports to the test as to systemd.
type service struct {
	t       *testing.T
	cmd     *exec.Cmd
	reports *net.UnixConn
	log     *strings.Builder
}

// serve starts a server and waits until it is ready.
func (s system) serve(user string, environ []string, args ...string) *service {
	s.t.Helper()
	v := s.launch(user, environ, args...)
	v.await("READY=1")
	return v
}

// launch starts a server.
func (s system) launch(user string, environ []string, args ...string) *service {
	s.t.Helper()
	path := filepath.Join(s.root, "notify")
	_ = os.Remove(path) // of an earlier server
	reports, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Chmod(path, 0o666); err != nil {
		s.t.Fatal(err)
	}
	v := &service{s.t, s.command(context.Background(), user, append(environ, "NOTIFY_SOCKET=/notify"), args...), reports, new(strings.Builder)}
	v.cmd.Stderr = v.log
	if err := v.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() {
		exited <- v.cmd.Wait()
		reports.Close()
	}()
	s.t.Cleanup(func() {
		_ = v.cmd.Process.Kill() // it has stopped, unless the test failed
		<-exited
		if s.t.Failed() {
			s.t.Logf("the log of the server:\n%s", v.log)
		}
	})
	return v
}

// await waits for a report of the server.
func (v *service) await(report string) {
	v.t.Helper()
	buffer := make([]byte, 4096)
	for {
		n, err := v.reports.Read(buffer)
		if err != nil {
			v.t.Fatalf("the server ended before it reported %s", report)
		}
		for line := range strings.SplitSeq(string(buffer[:n]), "\n") {
			if line == report {
				return
			}
		}
	}
}

// stop stops the server and waits until it has ended.
func (v *service) stop() {
	v.t.Helper()
	if err := v.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		v.t.Fatal(err)
	}
	v.await("STOPPING=1")
	buffer := make([]byte, 4096)
	for { // the socket is closed when the process has ended
		if _, err := v.reports.Read(buffer); err != nil {
			break
		}
	}
	if !v.cmd.ProcessState.Success() {
		v.t.Errorf("the server stopped with %v", v.cmd.ProcessState)
	}
}
