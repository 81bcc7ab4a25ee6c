package readme

import (
	"net/http"
	"testing"

	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
)

// The commands of docs/reference/http.md print what the page shows.
func TestHTTPPage(t *testing.T) {
	r := open(t, "docs/reference/http.md")
	r.prelude = curl()
	cfg := inprocess.Config(t)
	cfg.AdminListen = r.http
	inprocess.Start(t, cfg)
	poll.Until(t, "the server serves", func() bool {
		resp, err := http.Get("http://" + r.http + "/v1/resources/config/objects")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	for range 3 { // values
		r.answers()
	}
	r.begins(r.next("sh"))
	r.next("js") // test/browser runs it
	r.begins(r.next("sh"))
	r.next("json") // an error
	r.next("yaml")
	r.end()
}

// begins runs a command that prints messages of a watch.
func (r *reader) begins(command string) {
	r.t.Helper()
	var message any
	if err := r.start(command).messages.Decode(&message); err != nil {
		r.t.Errorf("%s\n%v", command, err)
	}
}
