package hostile

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"
)

// The bounds of what storms of streams may cost a well-behaved client. make hostile checks
// them; the measurements need a machine that does nothing else.
const (
	maxRatio  = 3 // of the p99 to the p99 while the same attackers hit another process
	maxStall  = 250 * time.Millisecond
	maxMemory = 476 // MiB: 500 MB
)

// measures reports whether the test runs for its figures.
func measures() bool { return os.Getenv("FANOUTD_HOSTILE") != "" }

// storm is an attack and how long it is measured.
type storm struct {
	kind        kind
	connections int
	atOnce      bool // the stall and the memory have bounds, too
}

// TestStormsOfStreams checks that the events of a well-behaved client arrive while attackers
// open and reset streams as fast as they can. With FANOUTD_HOSTILE set it also checks how late
// the events are, compared with attackers that hit another process: they take processors of
// the same machine.
func TestStormsOfStreams(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for _, s := range []storm{
		{kind: resetGRPC, connections: 1},
		{kind: resetGRPC, connections: 4},
		{kind: resetHTTP, connections: 4},
		{kind: openSnapshots, connections: 4, atOnce: true},
		{kind: openFromNow, connections: 4, atOnce: true},
	} {
		t.Run(fmt.Sprintf("%s, connections: %d", s.kind, s.connections), func(t *testing.T) { s.run(t) })
	}
}

func (s storm) run(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 2*wait) // the measurements take more than a minute
	defer cancel()
	target := runServer(ctx, t, 0)
	p := newProbe(ctx, t, target.address)
	newWellBehaved(ctx, t, target.address) // writes a MiB of objects, which snapshots contain
	during, afterwards := 3*time.Second, time.Second
	if s.atOnce {
		during = 12 * time.Second // longer than a watch waits for its snapshot
	}
	if measures() {
		during, afterwards = 20*time.Second, 10*time.Second
	}
	hit := func(victim *process) (all latencies, begun, refused int) {
		a := attack{Kind: s.kind, Address: victim.address, Size: s.connections, Hosts: 1}
		if s.kind == resetHTTP {
			a.Address = victim.admin
		}
		stop := a.launch(ctx, t)
		attacked := p.measure(ctx, t, during)
		held := target.peakMemory(t)
		begun, refused = stop()
		after := p.measure(ctx, t, afterwards) // what the attack has left behind counts as well
		t.Logf("  during the attack: %v, %d MiB at most; after it: %v, %d MiB at most", attacked, held, after, target.peakMemory(t))
		return append(attacked, after...).sorted(), begun, refused
	}
	var alone, elsewhere latencies
	if measures() {
		alone = p.measure(ctx, t, during)
		other := runServer(ctx, t, 0)
		newWellBehaved(ctx, t, other.address)
		elsewhere, _, _ = hit(other)
	}
	before := target.memory(t)
	here, begun, refused := hit(target)
	grown := target.peakMemory(t)
	t.Logf("%d streams, %d times calmed or refused", begun, refused)
	t.Logf("at this process:          %v", here)
	t.Logf("memory: %d MiB before, %d MiB at most", before, grown)
	if begun == 0 {
		t.Error("no attack took place")
	}
	if !s.atOnce && refused == 0 {
		t.Error("no connection was closed with ENHANCE_YOUR_CALM")
	}
	if !measures() {
		return
	}
	ratio := float64(here.p99()) / float64(elsewhere.p99())
	t.Logf("without attackers:        %v", alone)
	t.Logf("at another process:       %v; p99 is %.1f times that", elsewhere, ratio)
	if ratio > maxRatio && !s.atOnce {
		t.Errorf("the p99 is %.1f times that with attackers at another process, want at most %d times", ratio, maxRatio)
	}
	if stall := here.longest(); s.atOnce && stall > maxStall {
		t.Errorf("got a stall of %v, want at most %v", stall, maxStall)
	}
	if s.atOnce && grown > maxMemory {
		t.Errorf("got %d MiB of memory, want at most %d", grown, maxMemory)
	}
}
