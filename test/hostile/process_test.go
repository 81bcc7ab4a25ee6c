package hostile

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/poll"
)

// Attackers run in another process, so that they do not disturb the well-behaved client. It
// is this test binary, with the attack in an environment variable.
const attackVariable = "FANOUTD_TEST_ATTACK"

// attackers attacks until its standard input ends. It prints a line when the attack has
// begun, and the result at the end.
func attackers(as string) error {
	a := attack{over: make(chan struct{})}
	if err := json.Unmarshal([]byte(as), &a); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var group sync.WaitGroup
	if err := a.start(ctx, &group); err != nil {
		return err
	}
	fmt.Println("begun")
	if _, err := io.Copy(io.Discard, os.Stdin); err != nil {
		return err
	}
	close(a.over)
	late := time.AfterFunc(poll.Patience, cancel) // what is unanswered then is missing in the result
	a.unanswered.Wait()
	late.Stop()
	cancel()
	group.Wait()
	r := result{Begun: int(a.begun.Load()), Refused: int(a.refused.Load()), Accepted: int(a.accepted.Load()), Limits: a.limits}
	if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
		return err
	}
	for _, c := range a.conns {
		_ = c.Close()
	}
	return nil
}

// launch runs the attack in another process until stop is called, which returns its
// result.
func (a *attack) launch(ctx context.Context, t *testing.T) (stop func() result) {
	t.Helper()
	as, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	command := []string{os.Args[0]}
	if measures() {
		// Real attackers have their own machines. On this one the server has priority. Only for measurements: on a busy
		// machine such attackers hardly run, and the server closes connections whose handshake takes ten seconds.
		command = append([]string{"nice", "-n", "19"}, command...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.Env = append(os.Environ(), attackVariable+"="+string(as))
	cmd.Stderr = t.Output()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	out := bufio.NewReader(pipe)
	if line, err := out.ReadString('\n'); err != nil {
		t.Fatalf("got %q from the attackers: %v", line, err)
	}
	return func() (r result) {
		t.Helper()
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if err := json.NewDecoder(out).Decode(&r); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return r
	}
}
