package capacity

import (
	"fmt"
	"os"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// shown is the part of an incident that plots show, in seconds.
const shown = 180

// Draw writes an SVG plot of the served connections over time for incidents of one fleet.
func Draw(path, title string, results []Result) error {
	p := plot.New()
	p.Title.Text = title
	p.X.Label.Text, p.Y.Label.Text = "seconds since the incident began", "connections that are served (%)"
	p.Y.Min, p.Y.Max = 0, 105
	p.Legend.Left = false
	p.Add(plotter.NewGrid())
	var lines []any
	for _, r := range results {
		var points plotter.XYs
		for second, n := range r.Connected {
			x := float64(second+1) - incidentTime.Seconds()
			if x >= -10 && x <= shown {
				points = append(points, plotter.XY{X: x, Y: 100 * float64(n) / float64(r.Fleet.connections())})
			}
		}
		lines = append(lines, r.Incident, points)
	}
	if err := plotutil.AddLines(p, lines...); err != nil {
		return fmt.Errorf("draw %s: %w", path, err)
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("create the directory for plots: %w", err)
	}
	if err := p.Save(18*vg.Centimeter, 10*vg.Centimeter, path); err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

// DrawAll draws the cases of the document with the most incidents.
func DrawAll(folder string, c *Constants, results []Result) error {
	i := 0
	for n, one := range Cases(c) {
		end := i + len(one.Incidents)
		if len(one.Incidents) > 3 {
			if err := Draw(filepath.Join(folder, fmt.Sprintf("capacity-%d.svg", n+1)), one.Name, results[i:end]); err != nil {
				return err
			}
		}
		i = end
	}
	return nil
}
