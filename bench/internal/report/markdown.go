package report

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
)

// What is measured stands between these lines of a document.
const (
	begin = "<!-- what follows is written by fanoutbench -->"
	end   = "<!-- what precedes is written by fanoutbench -->"
)

// Replace puts text between the lines of a document that say where it belongs.
func Replace(document string, text []byte) error {
	old, err := os.ReadFile(document)
	if err != nil {
		return err
	}
	before, rest, ok := bytes.Cut(old, []byte(begin+"\n"))
	_, after, ok2 := bytes.Cut(rest, []byte(end+"\n"))
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %q and %q with line breaks behind them", document, begin, end)
	}
	now := slices.Concat(before, []byte(begin+"\n"), text, []byte(end+"\n"), after)
	if err := os.WriteFile(document, now, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", document, err)
	}
	return nil
}

// Markdown returns what was measured as text: with which command, on what, in tables and
// in plots, which lie in a folder beside the document.
func Markdown(groups []*Group, command, folder string, plots []string) ([]byte, error) {
	if len(groups) == 0 {
		return nil, errors.New("nothing was measured")
	}
	var b bytes.Buffer
	r := groups[0].Records[0]
	m := r.Machine
	fmt.Fprintf(&b, "\nMeasured on %s by\n\n    %s\n\n", r.Time.Format("2 January 2006"), command)
	fmt.Fprintf(&b, "on %s, %d cores, %.0f GB of memory, Linux %s, %s; with", m.CPU, m.Cores, float64(m.Memory)/1e9, m.Kernel, m.Go)
	for i, module := range slices.Sorted(maps.Keys(m.Versions)) {
		fmt.Fprintf(&b, "%s %s %s", map[bool]string{true: ","}[i > 0], module, m.Versions[module])
	}
	b.WriteString(".\nIn brackets is from where to where the runs go, before them is the median.\n\n")
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "- %s\n", note)
	}
	for _, s := range sections(groups) {
		fmt.Fprintf(&b, "\n### %s\n\n%s\n\n", s.title, s.about)
		var titles, rules []string
		for _, c := range s.columns {
			titles = append(titles, c.title)
			rules = append(rules, map[bool]string{true: "--:", false: "---"}[c.right])
		}
		for _, row := range append([][]string{titles, rules}, s.rows()...) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
		}
	}
	if len(plots) > 0 {
		b.WriteString("\n### Against the number of watchers\n\n")
	}
	for _, name := range plots {
		title := strings.ReplaceAll(strings.TrimSuffix(name, ".svg"), "-", " ")
		fmt.Fprintf(&b, "![%s](%s)\n", title, path.Join(folder, name))
	}
	b.WriteString("\n")
	return b.Bytes(), nil
}
