package robustness

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"
)

var (
	first   = flag.Uint64("seed", 1, "the first seed")
	seeds   = flag.Uint64("seeds", 1, "how many seeds, one after another")
	carried = flag.String("carrier", "", "the method of all watches, watch or subscribe; empty: half of the watchers use each")
	seconds = flag.Int("seconds", 10, "how long clients work with each seed")
)

// TestHistoriesAreClean checks that every answer of several servers is one that etcd
// itself could have given, while the servers and etcd are killed and stopped.
func TestHistoriesAreClean(t *testing.T) {
	// With three members some lag behind others, and the leader may be lost.
	checkSeeds(t, func(seed uint64) (members int) { return 1 + 2*int(seed%2) })
}

// TestHistoriesOfAClusterAreClean checks the same of servers that are the members of one etcd cluster.
func TestHistoriesOfAClusterAreClean(t *testing.T) {
	checkSeeds(t, func(uint64) (members int) { return 0 })
}

// checkSeeds makes a recording with each seed, with this many members of etcd, and validates it.
func checkSeeds(t *testing.T, membersOf func(seed uint64) int) {
	t.Helper()
	if !carrier(*carried).isValid() {
		t.Fatalf("-carrier is %q", *carried)
	}
	table := []string{
		"| seed | etcd members | history and rules | operations | without answer | watches | events | states | faults | verdict |",
		"|---|---|---|---|---|---|---|---|---|---|",
	}
	for seed := *first; seed < *first+*seeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			members := membersOf(seed)
			safeChange := seed/2%2 == 1
			rec := record(t, options{seed: seed, safeChange: safeChange, duration: time.Duration(*seconds) * time.Second, members: members, faults: true, carrier: carrier(*carried)})
			start := time.Now()
			err := rec.validate(t)
			verdict := "clean"
			if err != nil {
				verdict = err.Error()
				t.Error(err)
				rec.save(t)
			}
			operations, watches, events := rec.count()
			row := fmt.Sprintf("| %d | %d | %v | %d | %d | %d | %d | %d | %s | %s |",
				seed, members, safeChange, operations, rec.unknown, watches, events, len(rec.states), describe(rec.faults), verdict)
			table = append(table, row)
			t.Logf("validated in %v; watchers saw %s\n%s", time.Since(start).Round(time.Millisecond), describe(rec.seen), row)
			rec.variety(t)
		})
	}
	t.Logf("%d seconds each, carrier %q:\n%s", *seconds, *carried, strings.Join(table, "\n"))
}

// variety checks that the recording contains everything that it is meant to cover.
func (r *recording) variety(t *testing.T) {
	t.Helper()
	expected := []string{"CATCH_UP_REPLAY", "CATCH_UP_RESET", "live messages", "previous objects"}
	if *seconds >= 30 {
		// A short recording may contain no DELTA.
		expected = append(expected, "CATCH_UP_DELTA")
	}
	for _, what := range expected {
		if r.seen[what] == 0 {
			t.Errorf("the test is too easy: there were no %s", what)
		}
	}
	if len(r.faults) == 0 {
		t.Error("the test is too easy: there were no faults")
	}
}
