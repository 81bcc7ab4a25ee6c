package report

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// fakeRecord returns a made-up record with this CPU per delivery of the front server.
func fakeRecord(peer string, watchers, repeat int, cpu float64) *scenario.Record {
	return &scenario.Record{
		Parameters: scenario.Parameters{
			Scenario: "saturation", Peer: peer, Client: "raw", Watchers: watchers, PerConnection: 100,
			Interest: "all", ValueSize: 256, Batch: 1, Outstanding: 1, Repeat: repeat,
		},
		Each:    delivery.Summary{Count: 1, P99: 7000},
		Servers: []scenario.Server{{Name: "etcd", CPU: 1, PerWatcher: 10}, {Name: peer, CPU: cpu, PerWatcher: 1990}},
	}
}

func TestTableShowsMedianAndRange(t *testing.T) {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for i, cpu := range []float64{5, 2, 3} {
		if err := out.Encode(fakeRecord("fanoutd", 1000, i, cpu)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Encode(fakeRecord("floor", 1000, 0, 2)); err != nil {
		t.Fatal(err)
	}
	records, err := Read(&lines)
	if err != nil {
		t.Fatal(err)
	}
	groups := Groups(records)
	if len(groups) != 2 {
		t.Fatalf("got %d groups, want 2", len(groups))
	}
	if got, want := groups[0].Range(FrontCPU), (Range{2, 3, 5}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	if got, want := groups[0].Range(CPU), (Range{3, 4, 6}); got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	var table bytes.Buffer
	if err := Table(&table, 0, groups); err != nil {
		t.Fatal(err)
	}
	// The median is 3 µs, 1.5 times the floor's 2 µs.
	row := strings.Fields(strings.Split(table.String(), "\n")[2])
	for _, want := range []string{"fanoutd", "3.00", "(2.00-5.00)", "1.50", "7.00"} {
		if !slices.Contains(row, want) {
			t.Errorf("got row %q, want it to contain %q", row, want)
		}
	}
}

func TestWrongCountsAllFaults(t *testing.T) {
	a, b := fakeRecord("etcd", 10, 0, 1), fakeRecord("etcd", 10, 1, 1)
	a.Counts = delivery.Counts{Lost: 2, Duplicate: 1}
	b.Counts, b.Ended, b.Stalled = delivery.Counts{Lost: 1, OutOfOrder: 4}, 7, "why"
	a.Servers[1].WatchesLeft, a.Servers[1].GoroutinesLeft, b.Servers[1].GoroutinesLeft = 2, 20, 21
	g := Groups([]*scenario.Record{a, b})[0]
	if got, want := g.Wrong(), "3 lost, 1 duplicate, 4 out of order, 7 ended, 1 stalled, 2 watches left, 21 goroutines left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlotsNeedSeveralNumbersOfWatchers(t *testing.T) {
	var records []*scenario.Record
	for _, peer := range []string{"fanoutd", "etcd"} {
		for _, n := range []int{100, 1000, 10000} {
			records = append(records, fakeRecord(peer, n, 0, 3))
		}
	}
	alone := fakeRecord("nats", 100, 0, 1)
	alone.Parameters.Batch = 64 // the only run of its kind, so it is in no plot
	dir := t.TempDir()
	names, err := Plots(dir, Groups(append(records, alone)))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"cpu-saturation-100-on-a-connection.svg", "latency-saturation-100-on-a-connection.svg", "memory-saturation-100-on-a-connection.svg"}
	if !slices.Equal(names, want) {
		t.Fatalf("got %q, want %q", names, want)
	}
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"<svg", "fanoutd", "etcd", "watchers"} {
			if !bytes.Contains(text, []byte(part)) {
				t.Errorf("%s does not contain %q", name, part)
			}
		}
	}
}
