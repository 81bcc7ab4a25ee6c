package readme

import (
	"strings"
	"testing"
)

// The commands, the program and the unit test of docs/feature-flags.md do what the page says.
func TestFeatureFlags(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/feature-flags.md")
	r.write("flags.yaml", r.next("yaml"))
	r.write("fanoutd.yaml", strings.ReplaceAll(r.next("yaml"), "/tmp/", r.temp+"/"))
	r.start(r.next("sh")).await("msg=serving")
	r.run(r.next("sh"))

	r.run(r.next("sh"))
	r.write("store/flags.go", r.next("go"))
	r.write("store/main.go", r.next("go"))
	program := r.follow()
	r.change(program)
	r.write("store/flags_test.go", r.next("go"))
	r.run(r.next("sh"))

	r.prelude = "exec 2>&1\ntrap 'exit 0' EXIT\n" // the page shows errors, and commands that fail
	for range 2 {
		r.session(r.next("console"))
	}
	program.prints(r.next("text"))
	for range 2 {
		r.session(r.next("console"))
	}
	program.prints(r.next("text"))
	r.end()
}
