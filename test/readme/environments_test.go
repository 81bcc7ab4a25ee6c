package readme

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/test/loopback"
)

// The two servers of docs/tasks/environments.md are those of the page, with other addresses.
func TestEnvironmentsPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/tasks/environments.md")
	r.install()
	const printedProd = "127.0.0.1:8420"
	prod := loopback.FreeAddress(t)
	here := func(text string) string { return strings.ReplaceAll(text, printedProd, prod) }
	r.write("limits.yaml", r.next("yaml"))
	r.write("prod.yaml", here(strings.ReplaceAll(r.next("yaml"), "/tmp/", r.temp+"/")))
	r.start(r.next("sh")).await("msg=serving")
	variables := "unset FANOUTD_LISTEN FANOUTD_ADMIN_LISTEN FANOUTD_DATA_DIR FANOUTCTL_SERVER\nexport XDG_CONFIG_HOME=" + r.temp + "\n"
	r.prelude += variables
	r.start(r.next("sh")).await("msg=serving")
	r.prelude += "exec 2>&1\ntrap 'exit 0' EXIT\n" // the page shows errors, and commands that fail
	for range 3 {
		r.session(here(r.next("console")))
	}
	r.end()
}
