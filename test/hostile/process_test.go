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
)

// Attackers have a process of their own, so that they do not get in the way of who
// behaves within his. It is this test, with the attack in the environment.
const attackVariable = "FANOUTD_TEST_ATTACK"

// attackers attacks until its standard input ends. It says when it has begun, and at
// the end how many streams or connections were begun and how many refused.
func attackers(as string) error {
	var a attack
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
	cancel()
	group.Wait()
	fmt.Println(a.begun.Load(), a.refused.Load())
	for _, c := range a.conns {
		_ = c.Close()
	}
	return nil
}

// sendOut runs the attack in a process of its own until retreat is called, which says
// what has become of it.
func (a *attack) sendOut(ctx context.Context, t *testing.T) (retreat func() (begun, refused int)) {
	t.Helper()
	as, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	// They would have machines of their own. On this one the server comes first.
	cmd := exec.CommandContext(ctx, "nice", "-n", "19", os.Args[0])
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
		t.Fatalf("the attackers say %q: %v", line, err)
	}
	return func() (begun, refused int) {
		t.Helper()
		if err := in.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fscan(out, &begun, &refused); err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Fatal(err)
		}
		return begun, refused
	}
}
