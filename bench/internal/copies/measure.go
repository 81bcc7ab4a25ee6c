package copies

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/process"
)

// Program is a program that keeps a copy.
type Program struct {
	Language, Library string
	System            string // the peer that it needs
	Command           []string
}

// Programs returns all programs. The source is the folder of fanoutd's repository, with the client for
// Node.js built (make test-node). bench/copies/python/install installs what those for Python need.
func Programs(self, source string) []Program {
	folder := filepath.Join(source, "bench", "copies")
	python := func(file string) []string { return []string{"/usr/bin/python3", filepath.Join(folder, "python", file)} }
	node := func(file string) []string { return []string{"node", filepath.Join(folder, "node", file)} }
	return []Program{
		{"Go", "fanoutd", "fanoutd", []string{self, CommandName, "fanoutd"}},
		{"Go", "etcd clientv3", "etcd", []string{self, CommandName, "etcd"}},
		{"Go", "nats.go", "nats-kv", []string{self, CommandName, "nats-kv"}},
		{"Python", "fanoutd", "fanoutd", python("fanoutd_copy.py")},
		{"Python", "etcd3", "etcd", python("etcd_copy.py")},
		{"Node.js", "fanoutd", "fanoutd", node("fanoutd.js")},
		{"Node.js", "etcd3", "etcd", node("etcd.js")},
		{"Node.js", "nats.js", "nats-kv", node("nats.js")},
	}
}

// Result is what a program needs for its copy.
type Result struct {
	Load        time.Duration // from the start of the process until it has all objects
	LoadCPU     time.Duration // used until then
	Memory      int64         // resident at that time, in bytes
	ChangeCPU   time.Duration // of one change
	MemoryAfter int64         // resident after the changes, in bytes
}

// valueSize is the size of a value in bytes.
const valueSize = 100

// batch is the number of changes in a transaction, of systems that have transactions.
const batch = 100

// timeout bounds the load, and the changes.
const timeout = 2 * time.Minute

// Measure runs a program against its system with this number of objects, which is a multiple of 100.
func Measure(ctx context.Context, programs peer.Programs, p Program, objects int) (*Result, error) {
	config := load.Config{Keys: objects, Interest: load.InterestAll}
	system, err := peer.Start(ctx, p.System, peer.Options{Programs: programs, Config: config})
	if err != nil {
		return nil, err
	}
	defer system.Stop()
	if err := writeAll(ctx, system, objects, "a"); err != nil {
		return nil, err
	}
	if system.Positions != nil { // a linearizable read: the server has all writes
		if _, err := system.Positions.Position(ctx); err != nil {
			return nil, err
		}
	}
	out, output, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe: %w", err)
	}
	defer out.Close()
	args := append(slices.Clone(p.Command[1:]), system.Address, strconv.Itoa(objects))
	began := time.Now()
	running, err := process.Start(p.Language+" "+p.Library, p.Command[0], args, nil, output)
	_ = output.Close() // the program has its own
	if err != nil {
		return nil, err
	}
	defer running.Stop()
	lines := bufio.NewScanner(out)
	if err := await(running, out, lines, "loaded"); err != nil {
		return nil, err
	}
	r := &Result{Load: time.Since(began)}
	before, err := settled(ctx, running)
	if err != nil {
		return nil, err
	}
	r.LoadCPU, r.Memory = before.CPU, before.RSS
	if err := writeAll(ctx, system, objects, "b"); err != nil {
		return nil, err
	}
	if err := await(running, out, lines, "changed"); err != nil {
		return nil, err
	}
	after, err := settled(ctx, running)
	if err != nil {
		return nil, err
	}
	r.ChangeCPU, r.MemoryAfter = (after.CPU-before.CPU)/time.Duration(objects), after.RSS
	return r, nil
}

// writeAll writes each object once.
func writeAll(ctx context.Context, system *peer.Peer, objects int, letter string) error {
	value := []byte(letter)
	for len(value) < valueSize {
		value = append(value, letter...)
	}
	for first := 0; first < objects; first += batch {
		var changes []peer.Change
		for key := first; key < min(first+batch, objects); key++ {
			changes = append(changes, peer.Change{Key: key, Value: value})
		}
		if err := system.Writer.Write(ctx, changes); err != nil {
			return fmt.Errorf("write the objects: %w", err)
		}
	}
	return nil
}

// await waits for a line of the output.
func await(p *process.Process, out *os.File, lines *bufio.Scanner, want string) error {
	if err := out.SetReadDeadline(time.Now().Add(timeout)); err != nil {
		return fmt.Errorf("wait for %q of %s: %w", want, p.Name, err)
	}
	if !lines.Scan() {
		return fmt.Errorf("wait for %q of %s: %w: %s", want, p.Name, errors.Join(lines.Err(), errEnded), p.Log())
	}
	if lines.Text() != want {
		return fmt.Errorf("%s printed %q, want %q", p.Name, lines.Text(), want)
	}
	return nil
}

var errEnded = errors.New("the program does not print it")

// settled returns the usage of a program after it has had time to finish what it was doing.
func settled(ctx context.Context, p *process.Process) (process.Usage, error) {
	select {
	case <-time.After(time.Second):
	case <-ctx.Done():
		return process.Usage{}, context.Cause(ctx)
	}
	return p.Usage()
}
