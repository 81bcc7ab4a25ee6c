package readme

import (
	"strings"
	"testing"
)

// The rules of docs/tasks/validate.md refuse what the page says.
func TestValidatePage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/tasks/validate.md")
	r.install()
	r.write("flags.yaml", r.next("yaml"))
	r.write("fanoutd.yaml", strings.ReplaceAll(r.next("yaml"), "/tmp/", r.temp+"/"))
	r.start(r.next("sh")).await("msg=serving")
	r.prelude += "exec 2>&1\ntrap 'exit 0' EXIT\n" // the page shows errors, and commands that fail
	r.session(r.next("console"))
	r.session(r.next("console"))
	r.session(r.next("console"))
	r.end()
}
