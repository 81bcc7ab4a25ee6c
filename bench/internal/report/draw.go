package report

import (
	"fmt"
	"path/filepath"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/plotutil"
	"gonum.org/v1/plot/vg"
)

// draw writes an SVG plot of a curve into a directory and returns its name. The axis
// begins at zero, so that small changes do not look large.
func (c curve) draw(dir string, lines []*line) (string, error) {
	drawing := plot.New()
	drawing.Title.Text = c.title
	drawing.X.Label.Text, drawing.Y.Label.Text = c.axis.label, c.label()
	if c.axis.log {
		drawing.X.Scale, drawing.X.Tick.Marker = plot.LogScale{}, plot.LogTicks{Prec: -1}
	}
	drawing.Legend.Top, drawing.Legend.Left = c.grows, true
	drawing.Add(plotter.NewGrid())
	var parts []any
	for _, l := range lines {
		for _, f := range c.figures {
			if points := c.points(l, f); len(points) > 0 {
				parts = append(parts, c.legend(l, f), points)
			}
		}
	}
	if err := plotutil.AddLinePoints(drawing, parts...); err != nil {
		return "", fmt.Errorf("draw %s: %w", c.name, err)
	}
	drawing.Y.Min, drawing.Y.Max = 0, drawing.Y.Max*1.2
	name := c.name + ".svg"
	if err := drawing.Save(16*vg.Centimeter, 10*vg.Centimeter, filepath.Join(dir, name)); err != nil {
		return "", fmt.Errorf("write %s: %w", name, err)
	}
	return name, nil
}

// label returns the label of the axis of the figures.
func (c curve) label() string {
	switch f := c.figures[0]; {
	case c.relative:
		return f.name + ", in parts of the first"
	case len(c.figures) > 1:
		return "memory of fanoutd (" + f.unit + ")"
	default:
		return f.name + " (" + f.unit + ")"
	}
}

// legend returns the name of a line.
func (c curve) legend(l *line, f figure) string {
	if l.name == "" {
		return f.name
	}
	return l.name
}

// points returns the points of a line. It returns none if they are relative to the first
// value and that is 0.
func (c curve) points(l *line, f figure) plotter.XYs {
	first := 1.0
	if c.relative {
		first = l.groups[0].Range(f.value).Median
	}
	if first == 0 {
		return nil
	}
	var points plotter.XYs
	for _, g := range l.groups {
		points = append(points, plotter.XY{X: float64(c.x(g)), Y: g.Range(f.value).Median / first})
	}
	return points
}
