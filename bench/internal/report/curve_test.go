package report

import (
	"slices"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

func curveByName(t *testing.T, name string) curve {
	t.Helper()
	i := slices.IndexFunc(curves, func(c curve) bool { return c.name == name })
	if i < 0 {
		t.Fatalf("no curve %s", name)
	}
	return curves[i]
}

// A curve contains the runs that differ only in its parameter, in its order. Its table
// relates their costs to the first.
func TestCurveComparesRunsThatDifferInOneParameter(t *testing.T) {
	var records []*scenario.Record
	for _, c := range []struct {
		bystanders int
		bystand    string
		batch      int
		total      int64
	}{
		{1000, "key", 1, 3000}, {0, "", 1, 2000}, {10000, "key", 1, 2100}, // on the curve
		{1000, "one", 1, 9}, {1000, "key", 64, 9}, {0, "", 64, 9}, // not on the curve
	} {
		r := fakeRecord("fanoutd", 100, 0, 1)
		r.Parameters.Bystanders, r.Parameters.Bystand, r.Parameters.Batch = c.bystanders, c.bystand, c.batch
		r.Changes, r.Servers[1].Total = 100, c.total
		records = append(records, r)
	}
	records = append(records, fakeRecord("etcd", 100, 0, 1))
	c := curveByName(t, "unrelated-keys")
	lines := c.lines(Groups(records))
	if len(lines) != 1 {
		t.Fatalf("got %d lines, want 1", len(lines))
	}
	want := [][]string{
		{"0", "20.0", "1.00", "1", ""}, {"1000", "30.0", "1.50", "1", ""}, {"10000", "21.0", "1.05", "1", ""},
	}
	if got := c.table(lines)[2:]; !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The plot of the window sizes has a line for each kind of work, relative to its cost with
// the smaller window.
func TestWindowCurveHasALinePerScenario(t *testing.T) {
	var records []*scenario.Record
	for _, name := range []string{scenario.Saturation, scenario.Lists} {
		for _, window := range []int{100_000, 10_000} {
			r := fakeRecord("fanoutd", 1000, 0, float64(window)/1000)
			r.Parameters.Scenario, r.Parameters.Window = name, window
			records = append(records, r)
		}
	}
	c := curveByName(t, "window-cpu")
	lines := c.lines(Groups(records))
	if len(lines) != 2 || lines[0].name == lines[1].name {
		t.Fatalf("got lines %+v, want 2 with different names", lines)
	}
	for _, l := range lines {
		if p := c.points(l, c.figures[0]); len(p) != 2 || p[0].X != 10_000 || p[0].Y != 1 || p[1].Y != 10 {
			t.Errorf("%s: got points %v, want 1 at 10000 and 10 at 100000", l.name, p)
		}
		if strings.Contains(l.name, "window") {
			t.Errorf("got line name %q, want one without the window", l.name)
		}
	}
	dir := t.TempDir()
	if _, err := c.draw(dir, lines); err != nil {
		t.Fatal(err)
	}
	if svg := readFile(t, dir+"/window-cpu.svg"); !strings.Contains(svg, lines[1].name) {
		t.Errorf("the plot does not contain %q", lines[1].name)
	}
}
