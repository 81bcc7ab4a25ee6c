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

// measured returns what a run could have measured, with this CPU per delivery.
func measured(peer string, watchers, repeat int, cpu float64) *scenario.Record {
	return &scenario.Record{
		Parameters: scenario.Parameters{
			Scenario: "saturation", Peer: peer, Client: "raw", Watchers: watchers, PerConnection: 100, PerStream: 1,
			Interest: "all", ValueSize: 256, Batch: 1, Outstanding: 1, Repeat: repeat,
		},
		Each:    delivery.Summary{Count: 1, P99: 7000},
		Servers: []scenario.Server{{Name: "etcd", CPU: 1, PerWatcher: 10}, {Name: peer, CPU: cpu, PerWatcher: 1990}},
	}
}

func TestMedianAndSpread(t *testing.T) {
	var lines bytes.Buffer
	out := json.NewEncoder(&lines)
	for i, cpu := range []float64{5, 2, 3} {
		if err := out.Encode(measured("fanoutd", 1000, i, cpu)); err != nil {
			t.Fatal(err)
		}
	}
	if err := out.Encode(measured("floor", 1000, 0, 2)); err != nil {
		t.Fatal(err)
	}
	records, err := Read(&lines)
	if err != nil {
		t.Fatal(err)
	}
	groups := Groups(records)
	if len(groups) != 2 {
		t.Fatalf("%d groups", len(groups))
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
	// Three times the floor's 2 is not what it is, 1.5 times is.
	row := strings.Fields(strings.Split(table.String(), "\n")[2])
	for _, want := range []string{"fanoutd", "3.00", "(2.00-5.00)", "1.50", "7.00"} {
		if !slices.Contains(row, want) {
			t.Errorf("%q is not in the row %q", want, row)
		}
	}
}

func TestWhatIsWrongIsSaid(t *testing.T) {
	a, b := measured("etcd", 10, 0, 1), measured("etcd", 10, 1, 1)
	a.Counts = delivery.Counts{Lost: 2, Duplicate: 1}
	b.Counts, b.Ended, b.Stalled = delivery.Counts{Lost: 1, OutOfOrder: 4}, 7, "why"
	g := Groups([]*scenario.Record{a, b})[0]
	if got, want := g.Wrong(), "3 lost, 1 duplicate, 4 out of order, 7 ended, 1 stalled"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPlots(t *testing.T) {
	var records []*scenario.Record
	for _, peer := range []string{"fanoutd", "etcd"} {
		for _, n := range []int{100, 1000, 10000} {
			records = append(records, measured(peer, n, 0, 3))
		}
	}
	alone := measured("nats", 100, 0, 1)
	alone.Parameters.Batch = 64 // there is nothing to draw it with
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
		for _, word := range []string{"<svg", "fanoutd", "etcd", "watchers"} {
			if !bytes.Contains(text, []byte(word)) {
				t.Errorf("%s has no %q", name, word)
			}
		}
	}
}
