package readme

import (
	"regexp"
	"strings"
)

// session runs the commands of a terminal session, and compares what they print.
func (r *reader) session(text string) {
	r.t.Helper()
	for entry := range strings.SplitSeq(strings.TrimPrefix(text, "$ "), "\n$ ") {
		command, printed, _ := strings.Cut(strings.TrimSpace(entry)+"\n", "\n")
		got := strings.ReplaceAll(waits.ReplaceAllString(r.run(command), ""), r.temp, "/tmp")
		if masked(got) != masked(printed) {
			r.t.Errorf("%s: %s\ngot\n%s\nwant\n%s", r.page, command, got, printed)
		}
	}
}

var (
	// varies matches ids of watches, addresses, and numbers with their units.
	varies = regexp.MustCompile(`[0-9a-f]{12}-[0-9.]+|127\.[0-9.]+:\d+|[0-9][0-9.]*(?: ?(?:ms|s|m|h|B|KiB|MiB)\b)?`)
	// waits matches what a gate prints on a slow machine.
	waits  = regexp.MustCompile(`(?m)^waiting: .*\n`)
	spaces = regexp.MustCompile(` +`)
)

// masked returns text without what differs from run to run.
func masked(text string) string {
	return strings.TrimSpace(spaces.ReplaceAllString(varies.ReplaceAllString(text, "#"), " "))
}
