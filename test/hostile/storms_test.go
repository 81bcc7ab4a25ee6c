package hostile

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/test/poll"
)

// The bounds of what storms of streams may cost a well-behaved client. make hostile checks
// them; the measurements need a machine that does nothing else.
const (
	maxRatio  = 3 // of the p99 to the p99 while the same attackers hit another process
	maxStall  = 250 * time.Millisecond
	maxMemory = 572 // MiB: 600 MB; a watch that cannot be sent holds 13 KiB
)

// measures reports whether the test runs for its figures.
func measures() bool { return os.Getenv("FANOUTD_HOSTILE") != "" }

// storm is an attack and how long it is measured.
type storm struct {
	kind        kind
	connections int
	atOnce      bool // the stall and the memory have bounds, too
}

// atOnce returns how many watches a connection of an attacker opens at once, and the flags of the
// server. For the measurements the server has its default limits, and accepts 10,000 streams of a
// connection. Otherwise both are smaller in about the same proportion. So is the limit of resets,
// because attackers on a busy machine may not reach the default.
func atOnce() (streams int, flags []string) {
	if measures() {
		return 9000, nil
	}
	return 500, []string{"--max-waiting-snapshots", "512", "--max-snapshots", "16", "--max-reset-rate", "20"}
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
		{kind: restartAlways, connections: 1},
		{kind: restartAlways, connections: 4},
		{kind: startSnapshots, connections: 4, atOnce: true},
		{kind: startFromNow, connections: 4, atOnce: true},
	} {
		t.Run(fmt.Sprintf("%s, connections: %d", s.kind, s.connections), func(t *testing.T) {
			if !measures() {
				t.Parallel()
			}
			s.run(t)
		})
	}
}

func (s storm) run(t *testing.T) {
	// The attackers give up first, and report what is missing.
	ctx, cancel := context.WithTimeout(t.Context(), 2*poll.Patience)
	defer cancel()
	streams, flags := atOnce()
	target := runServer(ctx, t, 0, flags...)
	p := newProbe(ctx, t, target.address)
	newWellBehaved(ctx, t, target.address) // writes a MiB of objects, which snapshots contain
	during, afterwards := 3*time.Second, time.Second
	if s.kind == openSnapshots {
		during = 12 * time.Second // longer than a watch waits for its snapshot
	}
	if measures() {
		during, afterwards = 20*time.Second, 10*time.Second
	}
	hit := func(victim *process) (latencies, result) {
		a := attack{Kind: s.kind, Address: victim.address, Size: s.connections, Streams: streams, Hosts: 1}
		// A watch ends with STORE_UNAVAILABLE or REVISION_NOT_REACHED if it waits for etcd for more
		// than three seconds, which happens on a busy machine.
		a.Stale = !measures()
		if s.kind == resetHTTP {
			a.Address = victim.admin
		}
		stop := a.launch(ctx, t)
		attacked := p.measure(ctx, t, during)
		held := target.peakMemory(t)
		became := stop()
		after := p.measure(ctx, t, afterwards) // what the attack has left behind counts as well
		t.Logf("  during the attack: %v, %d MiB at most; after it: %v, %d MiB at most", attacked, held, after, target.peakMemory(t))
		s.checkAnswers(t, became, s.connections*streams)
		return append(attacked, after...).sorted(), became
	}
	var alone, elsewhere latencies
	if measures() {
		alone = p.measure(ctx, t, during)
		other := runServer(ctx, t, 0, flags...)
		newWellBehaved(ctx, t, other.address)
		elsewhere, _ = hit(other)
	}
	before := target.memory(t)
	here, _ := hit(target)
	grown := target.peakMemory(t)
	t.Logf("at this process:          %v", here)
	t.Logf("memory: %d MiB before, %d MiB at most", before, grown)
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

// checkAnswers checks what the server has done with the streams. It calms clients that reset
// streams. It accepts all watches that are opened at once, except those for whose snapshots
// there is no room: these it refuses because of a limit, which the status names.
func (s storm) checkAnswers(t *testing.T, became result, all int) {
	t.Helper()
	if became.Begun == 0 {
		t.Error("no attack took place")
	}
	if !s.atOnce {
		t.Logf("%d streams, %d connections closed with ENHANCE_YOUR_CALM", became.Begun, became.Refused)
		if became.Refused == 0 {
			t.Error("no connection was closed with ENHANCE_YOUR_CALM")
		}
		return
	}
	t.Logf("%d watches, %d accepted, refused by limit: %v", became.Begun, became.Accepted, became.Limits)
	answered := became.Accepted
	if s.kind == openSnapshots || s.kind == startSnapshots {
		answered += became.Limits["max-waiting-snapshots"] + became.Limits["max-snapshots"]
	}
	if became.Begun != all || answered != all || became.Refused != all-became.Accepted || became.Accepted == 0 {
		t.Errorf("got %+v, want each of %d watches accepted, or refused because of a limit of snapshots", became, all)
	}
}
