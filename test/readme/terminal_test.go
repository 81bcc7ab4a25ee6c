package readme

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// patience bounds every wait. It includes building the server and grpcurl with empty
// caches.
const patience = 8 * time.Minute

// command returns a command that a shell runs.
func (r *reader) command(text string) *exec.Cmd {
	text = strings.NewReplacer(printedAddress, r.address, printedHTTP, r.http, "/tmp/", r.temp+"/").Replace(text)
	cmd := exec.CommandContext(r.t.Context(), "bash", "-c", r.prelude+"\n"+text)
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "FANOUTD_LISTEN="+r.address, "FANOUTD_ADMIN_LISTEN="+r.http, "FANOUTD_DATA_DIR="+r.data, "FANOUTCTL_SERVER="+r.address)
	return cmd
}

// curl returns shell code that defines curl if it is missing: the tests need only Go, make
// and git.
func curl() string {
	if _, err := exec.LookPath("curl"); err == nil {
		return ""
	}
	return `curl() { go run ./test/curl "$@"; }`
}

// run runs a command to its end and returns its output.
func (r *reader) run(text string) string {
	r.t.Helper()
	cmd := r.command(text)
	var errors strings.Builder
	cmd.Stderr = &errors
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s\n%v\n%s", text, err, errors.String())
	}
	return string(out)
}

// terminal runs a command that does not exit on its own.
type terminal struct {
	*reader
	cmd      *exec.Cmd
	log      *bufio.Scanner // standard error
	lines    *bufio.Reader  // standard output
	messages *json.Decoder  // reads lines
}

func (r *reader) start(text string) *terminal {
	r.t.Helper()
	cmd := r.command(text)
	// A separate process group receives signals as from a keyboard.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stderr, err := cmd.StderrPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		r.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		r.t.Fatal(err)
	}
	kill := func() { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	late := time.AfterFunc(patience, kill)
	r.t.Cleanup(func() {
		late.Stop()
		kill()
		_ = cmd.Wait() // it was killed, or wait has already been called
	})
	lines := bufio.NewReader(stdout)
	return &terminal{reader: r, cmd: cmd, log: bufio.NewScanner(stderr), lines: lines, messages: json.NewDecoder(lines)}
}

// follow starts the command of the next block, and checks that it prints the block after it.
func (r *reader) follow() *terminal {
	r.t.Helper()
	running := r.start(r.next("sh"))
	running.prints(r.next("text"))
	return running
}

// change runs the command of the next block, and checks that a running command then prints the
// block after it.
func (r *reader) change(running *terminal) {
	r.t.Helper()
	r.run(r.next("sh"))
	running.prints(r.next("text"))
}

// await reads the log until a line contains the text.
func (t *terminal) await(text string) {
	t.t.Helper()
	var seen []string
	for t.log.Scan() {
		if seen = append(seen, t.log.Text()); strings.Contains(t.log.Text(), text) {
			return
		}
	}
	t.t.Fatalf("no %q among\n%s", text, strings.Join(seen, "\n"))
}

// prints compares the next lines of standard output with printed ones.
func (t *terminal) prints(printed string) {
	t.t.Helper()
	for want := range strings.Lines(printed) {
		if got, err := t.lines.ReadString('\n'); got != want {
			t.t.Errorf("got line %q (%v), want %q", got, err, want)
		}
	}
}

// interrupt sends SIGINT, as Ctrl-C does.
func (t *terminal) interrupt() {
	t.t.Helper()
	if err := syscall.Kill(-t.cmd.Process.Pid, syscall.SIGINT); err != nil {
		t.t.Fatal(err)
	}
}

// wait waits for the end of the log, and so of the server.
func (t *terminal) wait() {
	t.t.Helper()
	t.await("msg=stopped")
	for t.log.Scan() {
		// make may print a message.
	}
}
