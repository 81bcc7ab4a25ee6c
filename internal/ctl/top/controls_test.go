package top

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"
	"github.com/gdamore/tcell/v3"

	"github.com/fanoutd/fanoutd/internal/ctl/admin"
)

// keys are the keys that tests name.
var keys = map[string]tcell.Key{
	"Esc": tcell.KeyEscape, "Enter": tcell.KeyEnter, "Backspace": tcell.KeyBackspace, "Tab": tcell.KeyTab, "Up": tcell.KeyUp,
	"Down": tcell.KeyDown, "PgUp": tcell.KeyPgUp, "PgDn": tcell.KeyPgDn, "Home": tcell.KeyHome, "End": tcell.KeyEnd, "Ctrl-C": tcell.KeyCtrlC,
}

// busy returns a screen with typical rows: 3 resources, and watchers that are further behind the lower their
// number is.
func busy(watchers int) Screen {
	s := snapshot(3, 0)
	for i := range s.resources {
		s.resources[i] = admin.Resource{
			Name: fmt.Sprint("resource-", i), State: "serving", Codec: "protobuf", Cached: true, Objects: new(int64(123456)),
			Window: &admin.Window{Changes: 10000, Bytes: 5 << 20, Span: 3600}, Lag: new(int64(0)), Watchers: 1000, Filters: 100,
		}
	}
	for i := range watchers {
		s.watchers.Watchers = append(s.watchers.Watchers, admin.Watcher{
			ID: fmt.Sprintf("a2eff5beb4cd-%d.1", 1000+i), Peer: fmt.Sprintf("10.20.30.%d:51234", 100+i), Instance: fmt.Sprintf("web-%d", i%7),
			Resource: "resource-0", State: "catching-up", Prefix: "some/longer/path", Labels: "tier=web,env=Prod", Lag: new(float64(watchers - i)),
			LagEvents: new(int64(1234)), Bytes: int64(1000 + 10*i), Since: time.Unix(int64(1000-i), 0),
		})
	}
	s.watchers.Total = int64(watchers)
	return Screen{{Server: "a:1", Value: s}}
}

func TestKeys(t *testing.T) {
	const height = 21 // the title, 3 resources, 12 watchers, and the lines around them
	for name, c := range map[string]struct {
		press string // keys, separated by spaces
		want  string // the numbers of the first and the last watcher, and the status line
		quits bool
	}{
		"nothing":               {"", "0 11 sort by lag  /: filter", false},
		"scroll":                {"Down Down j Up k", "1 12 from watcher 2", false},
		"not above the first":   {"Up PgUp Down", "1 12 from watcher 2", false},
		"pages":                 {"PgDn PgDn PgUp", "12 23 from watcher 13", false},
		"the end":               {"End Up", "37 48 from watcher 38", false},
		"not below the last":    {"End Down Down Up", "37 48 from watcher 38", false},
		"and back":              {"G g", "0 11 /: filter", false},
		"by sent bytes":         {"Down s", "49 38 sort by sent", false},
		"by age":                {"s s", "49 38 sort by age", false},
		"by client":             {"s s s s", "0 22 sort by client", false},
		"by lag again":          {"s s s s s", "0 11 sort by lag", false},
		"filter":                {"/ W E B - 6 Enter", `6 48 /: filter "WEB-6"`, false},
		"a filter of any case":  {"/ = p r o d Enter", `0 11 /: filter "=prod"`, false},
		"filters start at top":  {"End / w Enter", `0 11 /: filter "w"`, false},
		"typing a filter":       {"/ w e q ? s Backspace Backspace", "-1 -1 Filter: weq_", false},
		"without the filter":    {"End / 1 0 4 9 Enter Esc", "0 11 /: filter", false},
		"abandoned filter":      {"/ 1 0 4 9 Esc", "0 11 /: filter", false},
		"other table":           {"Tab Down", "0 11 /: filter", false},
		"help":                  {"?", "-1 -1 sort by lag", false},
		"end of help":           {"? Esc ? ?", "0 11 sort by lag", false},
		"q":                     {"q", "", true},
		"Esc":                   {"Esc", "", true},
		"Ctrl-C in the filter":  {"/ Ctrl-C", "", true},
		"Esc after a filter":    {"/ 1 Enter Esc Esc", "", true},
		"space is a page, too":  {"Space", "12 23 from watcher 13", false},
		"sorting starts at top": {"End s", "49 38 sort by sent", false},
	} {
		t.Run(name, func(t *testing.T) {
			s, p := busy(50), &Program{}
			var chosen controls
			quits := false
			text := p.text(s, &chosen, 0, height)
			for key := range strings.FieldsSeq(c.press) {
				event := tcell.NewEventKey(tcell.KeyRune, strings.Replace(key, "Space", " ", 1), tcell.ModNone)
				if code, ok := keys[key]; ok {
					event = tcell.NewEventKey(code, "", tcell.ModNone)
				}
				if quits = !chosen.press(event); quits {
					break
				}
				text = p.text(s, &chosen, 0, height)
			}
			if quits != c.quits {
				t.Fatalf("quits: %v, want %v", quits, c.quits)
			}
			if quits {
				return
			}
			first, last, wantStatus := 0, 0, ""
			fmt.Sscan(c.want, &first, &last)
			_, wantStatus, _ = strings.Cut(c.want, " ")
			_, wantStatus, _ = strings.Cut(wantStatus, " ")
			lines := strings.Split(ansi.Strip(text), "\n")
			var shown []string
			for _, line := range lines {
				if strings.HasPrefix(line, "a2eff5beb4cd-") {
					shown = append(shown, strings.Fields(line)[0])
				}
			}
			id := func(n int) string { return fmt.Sprintf("a2eff5beb4cd-%d.1", 1000+n) }
			if first >= 0 && (len(shown) == 0 || shown[0] != id(first) || shown[len(shown)-1] != id(last)) || first < 0 && len(shown) > 0 {
				t.Errorf("got the watchers %v, want %d to %d", shown, first, last)
			}
			if status := lines[len(lines)-1]; !strings.Contains(status, wantStatus) {
				t.Errorf("got the status line %q, want %q", status, wantStatus)
			}
			if len(lines) > height {
				t.Errorf("got %d lines, want at most %d", len(lines), height)
			}
		})
	}
}

// The tables fit into any usual width. A wider screen shows at least as many columns.
func TestTablesFit(t *testing.T) {
	before := 0
	for _, width := range []int{60, 80, 100, 120, 160, 200} {
		text := ansi.Strip(busy(10).View(width, 24))
		columns := 0
		for line := range strings.Lines(text) {
			if n := ansi.StringWidth(strings.TrimRight(line, "\n")); n > width {
				t.Errorf("width %d: a line has %d columns: %s", width, n, line)
			}
			if strings.HasPrefix(line, "ID") || strings.HasPrefix(line, "NAME") {
				columns += len(strings.Fields(line))
			}
		}
		if columns < before {
			t.Errorf("width %d: %d columns, but %d on a narrower screen", width, columns, before)
		}
		before = columns
		for _, need := range []string{"INSTANCE", "STATE", "BEHIND", "FILTER", "some/", "OBJECTS", "WATCHERS"} {
			if !strings.Contains(text, need) {
				t.Errorf("width %d: no %s:\n%s", width, need, text)
			}
		}
	}
}

// Without the column PEER, a client that has no name is shown by its address.
func TestNarrowScreensNameClients(t *testing.T) {
	s := busy(1)
	s[0].Value.watchers.Watchers[0].Instance = ""
	if text := s.View(80, 24); strings.Contains(text, "PEER") || !strings.Contains(text, "10.20.30.100:51234") {
		t.Errorf("got\n%s", text)
	}
}
