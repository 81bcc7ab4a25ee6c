package top

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gdamore/tcell/v3"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

// order is an order of the watchers on the screen.
type order struct {
	name    string
	compare func(a, b admin.Watcher) int // nil: as the servers sort them
}

var orders = []order{
	{"lag", nil},
	{"sent", func(a, b admin.Watcher) int { return cmp.Compare(b.Bytes, a.Bytes) }},
	{"age", func(a, b admin.Watcher) int { return a.Since.Compare(b.Since) }},
	{"resource", func(a, b admin.Watcher) int { return cmp.Compare(a.Resource, b.Resource) }},
	{"client", func(a, b admin.Watcher) int {
		return cmp.Compare(cmp.Or(a.Instance, a.Identity, a.Peer), cmp.Or(b.Instance, b.Identity, b.Peer))
	}},
}

// The tables of the screen.
const (
	watcherTable = iota
	resourceTable
	tables
)

// controls is what the user has chosen. The zero value shows everything from the beginning.
type controls struct {
	order  int // index into orders
	filter string
	typing bool // the filter is being typed
	help   bool
	focus  int         // the table that scrolls
	first  [tables]int // the first row on the screen
	page   [tables]int // how many rows are on the screen, set by the view
}

const helpText = `Keys:

  ↑ ↓  j k         scroll by a line
  PgUp PgDn        scroll by a page
  Home End  g G    go to the first or the last row
  Tab              scroll the other table
  s                sort the watchers by lag, sent bytes, age, resource or client
  /                show only the watchers that contain a text; Enter ends it
  Esc              remove the filter, or quit
  ?                show or hide this help
  q  Ctrl-C        quit
`

// press handles a key. It returns false if the user wants to quit.
func (c *controls) press(event *tcell.EventKey) bool {
	key, text := event.Key(), ""
	if key == tcell.KeyRune {
		text = event.Str()
	}
	switch {
	case key == tcell.KeyCtrlC:
		return false
	case c.typing:
		c.edit(key, text)
	case key == tcell.KeyEscape && c.help, text == "?":
		c.help = !c.help
	case key == tcell.KeyEscape && c.filter != "":
		c.filter, c.first[watcherTable] = "", 0
	case key == tcell.KeyEscape, text == "q":
		return false
	case text == "/":
		c.typing, c.help = true, false
	case text == "s":
		c.order, c.first[watcherTable] = (c.order+1)%len(orders), 0
	case key == tcell.KeyTab:
		c.focus = (c.focus + 1) % tables
	default:
		c.scroll(key, text)
	}
	return true
}

// edit handles a key while the filter is typed.
func (c *controls) edit(key tcell.Key, text string) {
	c.first[watcherTable] = 0
	switch key {
	case tcell.KeyEnter:
		c.typing = false
	case tcell.KeyEscape:
		c.typing, c.filter = false, ""
	case tcell.KeyBackspace:
		if runes := []rune(c.filter); len(runes) > 0 {
			c.filter = string(runes[:len(runes)-1])
		}
	default:
		c.filter += text
	}
}

// scroll moves the first row. The view limits it.
func (c *controls) scroll(key tcell.Key, text string) {
	first, page := &c.first[c.focus], max(1, c.page[c.focus])
	switch {
	case key == tcell.KeyUp, text == "k":
		*first--
	case key == tcell.KeyDown, text == "j":
		*first++
	case key == tcell.KeyPgUp:
		*first -= page
	case key == tcell.KeyPgDn, text == " ":
		*first += page
	case key == tcell.KeyHome, text == "g":
		*first = 0
	case key == tcell.KeyEnd, text == "G":
		*first = 1 << 30
	}
	*first = max(0, *first)
}

// selected returns the watchers that match the filter, in the chosen order.
func (c *controls) selected(all []admin.Watcher, columns []output.Column[admin.Watcher]) []admin.Watcher {
	if c.filter != "" {
		want := strings.ToLower(c.filter)
		all = slices.DeleteFunc(slices.Clone(all), func(w admin.Watcher) bool {
			var row strings.Builder
			for _, c := range columns {
				row.WriteString(strings.ToLower(c.Cell(w)) + " ")
			}
			return !strings.Contains(row.String(), want)
		})
	}
	if compare := orders[c.order].compare; compare != nil {
		all = slices.Clone(all)
		slices.SortStableFunc(all, compare)
	}
	return all
}

// visible returns the rows of a table that are on the screen, and moves the first one if there are not so
// many.
func visible[T any](c *controls, table int, rows []T, fit int) []T {
	c.page[table] = fit
	c.first[table] = max(0, min(c.first[table], len(rows)-fit))
	return rows[c.first[table]:][:fit]
}

// status returns the last line of the screen.
func (c *controls) status() string {
	if c.typing {
		return "Filter: " + c.filter + "_"
	}
	var line strings.Builder
	line.WriteString("q: quit  ?: help  s: sort by " + orders[c.order].name + "  /: filter")
	if c.filter != "" {
		fmt.Fprintf(&line, " %q", c.filter)
	}
	for table, name := range []string{"watcher", "resource"} {
		if c.first[table] > 0 {
			fmt.Fprintf(&line, "  from %s %d", name, c.first[table]+1)
		}
	}
	return line.String()
}
