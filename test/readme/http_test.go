package readme

import "testing"

// The commands of docs/reference/http.md print what the page shows.
func TestHTTPPage(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	r := open(t, "docs/reference/http.md")
	r.prelude = curl()
	r.start("go run ./cmd/fanoutd").await("msg=serving")
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
