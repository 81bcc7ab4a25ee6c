package readme

import "strings"

// past follows docs/tasks/history.md. The revisions of the page are those of the test.
func (r *reader) past() {
	r.t.Helper()
	r.prelude += "exec 2>&1\ntrap 'exit 0' EXIT\n" // diff fails if there is a difference
	var printed, got []string
	for command, want := range commands(r.next("console")) {
		printed = append(printed, want)
		got = append(got, strings.TrimSpace(r.run(command)))
	}
	for range 5 {
		for command, want := range commands(r.next("console")) {
			for _, option := range []string{"--at ", "--to ", "--from "} {
				command = strings.ReplaceAll(command, option+printed[0], option+got[0])
			}
			if got := strings.TrimSpace(r.run(command)); masked(got) != masked(want) {
				r.t.Errorf("%s: %s\ngot\n%s\nwant\n%s", r.page, command, got, want)
			}
		}
	}
}

// commands returns the commands of a session and what they print.
func commands(session string) func(yield func(command, printed string) bool) {
	return func(yield func(command, printed string) bool) {
		for entry := range strings.SplitSeq(strings.TrimPrefix(session, "$ "), "\n$ ") {
			command, printed, _ := strings.Cut(entry, "\n")
			if !yield(command, strings.TrimSpace(printed)) {
				return
			}
		}
	}
}
