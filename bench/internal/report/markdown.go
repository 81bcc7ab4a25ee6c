package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/bench/internal/scenario"
)

// Part selects what a document shows of a suite.
type Part struct {
	Suite  string // name of the suite, which names its blocks
	Tables bool   // of all runs, and plots against the number of watchers
	Curves bool   // plots over one parameter
	Goals  bool   // in a block of its own
	Groups []*Group
}

// goalsOf returns the name of the block with the goals of a suite.
func goalsOf(suite string) string { return "goals of " + suite }

// blocks returns the names of the blocks of a part.
func (p Part) blocks() []string {
	if p.Goals {
		return []string{goalsOf(p.Suite), p.Suite}
	}
	return []string{p.Suite}
}

// Check returns an error if a document has no blocks for some parts.
func Check(document string, parts ...Part) error {
	for _, p := range parts {
		for _, block := range p.blocks() {
			if _, err := readBlock(document, block); err != nil {
				return err
			}
		}
	}
	return nil
}

// Write writes parts between their marker lines in a document, and plots into directories
// beside it. Other suites stay as they are.
func Write(document string, parts ...Part) error {
	if err := Check(document, parts...); err != nil {
		return err
	}
	for _, p := range parts {
		text, err := p.markdown(path.Dir(document))
		if err != nil {
			return err
		}
		if err := replace(document, p.Suite, text); err != nil {
			return err
		}
		if !p.Goals {
			continue
		}
		if err := replace(document, goalsOf(p.Suite), p.goals()); err != nil {
			return err
		}
	}
	return nil
}

// markdown returns the text of a suite: its command, the machine, tables and plots. The plots
// are in a directory of the suite beside the document. The document explains the columns.
func (p Part) markdown(dir string) ([]byte, error) {
	if len(p.Groups) == 0 {
		return nil, errors.New("nothing was measured")
	}
	folder := path.Join("images", "benchmarks", p.Suite)
	drawings, err := emptyFolder(path.Join(dir, folder))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	heading(&b, p.Groups[0].Records[0])
	if p.Tables {
		for _, s := range sections(p.Groups) {
			fmt.Fprintf(&b, "\n### %s\n\n%s", s.title, s.markdown())
		}
		plots, err := Plots(drawings, p.Groups)
		if err != nil {
			return nil, err
		}
		if len(plots) > 0 {
			b.WriteString("\n### Against the number of watchers\n\n")
		}
		for _, name := range plots {
			fmt.Fprintf(&b, "![%s](%s)\n", nameOf(name), path.Join(folder, name))
		}
	}
	if p.Curves {
		if err := writeCurves(&b, p.Groups, drawings, folder); err != nil {
			return nil, err
		}
	}
	b.WriteString("\n")
	return b.Bytes(), nil
}

// nameOf returns the name of the plot in a file.
func nameOf(file string) string {
	return strings.ReplaceAll(strings.TrimSuffix(file, ".svg"), "-", " ")
}

// heading returns the date, command and machine of the records.
func heading(b *bytes.Buffer, r *scenario.Record) {
	m := r.Machine
	fmt.Fprintf(b, "\nMeasured on %s by\n\n    %s\n\n", r.Time.Format("2 January 2006"), r.Command)
	fmt.Fprintf(b, "on %s, %d cores, %.0f GB of memory, Linux %s, %s; with", m.CPU, m.Cores, float64(m.Memory)/1e9, m.Kernel, m.Go)
	for i, module := range slices.Sorted(maps.Keys(m.Versions)) {
		fmt.Fprintf(b, "%s %s %s", map[bool]string{true: ","}[i > 0], module, m.Versions[module])
	}
	b.WriteString(".\n")
}

// goals returns the table of the goals that have records.
func (p Part) goals() []byte {
	rows := goalTable(p.Groups)
	if len(rows) == 0 {
		return []byte("\n")
	}
	r := p.Groups[0].Records[0]
	var b bytes.Buffer
	fmt.Fprintf(&b, "\nBy `%s`, on %s:\n\n", r.Command, r.Time.Format("2 January 2006"))
	writeTable(&b, append([][]string{
		{"what", "against", "we want", "measured", "reached"},
		{"---", "---", "--:", "--:", "---"},
	}, rows...))
	b.WriteString("\n")
	return b.Bytes()
}

func (s section) markdown() string {
	var titles, rules []string
	for _, c := range s.columns {
		titles = append(titles, c.title)
		rules = append(rules, map[bool]string{true: "--:", false: "---"}[c.right])
	}
	var b bytes.Buffer
	writeTable(&b, append([][]string{titles, rules}, s.rows()...))
	return b.String()
}

func writeTable(b *bytes.Buffer, rows [][]string) {
	for _, row := range rows {
		fmt.Fprintf(b, "| %s |\n", strings.Join(row, " | "))
	}
}

// writeCurves writes a sentence, a plot and a table for each curve that has records.
func writeCurves(b *bytes.Buffer, groups []*Group, drawings, folder string) error {
	for _, c := range curves {
		lines := c.lines(groups)
		if len(lines) == 0 {
			continue
		}
		name, err := c.draw(drawings, lines)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n### %s\n\n%s\n\n![%s](%s)\n\n", c.title, c.sentence, nameOf(name), path.Join(folder, name))
		writeTable(b, c.table(lines))
	}
	return nil
}
