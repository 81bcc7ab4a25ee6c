package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fanoutd/fanoutd/client"
)

// Without a terminal, a wait prints a line when its status changes, and every ten seconds if it does
// not. The line names the watches that have not applied the revision.
func TestWaitPrintsItsProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var errs strings.Builder
		p := waitProgress{tool: newTool(nil, nil, nil, &errs), ctx: t.Context(), options: &gateOptions{selection: `key "a"`}, printed: time.Now()}
		show := func(seconds int, s client.WaitStatus) {
			for range seconds {
				time.Sleep(time.Second)
				p.show(&s)
				p.show(&s) // a status that has not changed, at once
			}
		}
		server := []client.WaitServer{{Address: "a:1", Answered: true, Answering: true}}
		late := client.PendingWatch{Instance: "web-1"}
		p.show(&client.WaitStatus{Revision: 7, Watches: 2, Required: 2, Pending: []client.PendingWatch{late}, Servers: server}) // may be over at once
		show(31, client.WaitStatus{Revision: 7, Watches: 2, Required: 2, Pending: []client.PendingWatch{late, {Instance: "web-2"}}, Servers: server})
		show(1, client.WaitStatus{Revision: 7, Watches: 2, Applied: 1, Required: 2, Pending: []client.PendingWatch{late}, Servers: server})
		show(1, client.WaitStatus{Revision: 7, Required: 1, Servers: server})
		show(1, client.WaitStatus{Revision: 7, Watches: 2, Applied: 2, Required: 2, Servers: server, Ended: true})
		const two = "waiting: 0 of 2 watches have applied revision 7, want 2; not applied by web-1, web-2\n"
		want := strings.Repeat(two, 4) + "waiting: 1 of 2 watches have applied revision 7, want 2; not applied by web-1\n" +
			"waiting: 0 of 0 watches have applied revision 7, want 1; no watch that reports concerns key \"a\" (use --min-watches 0 if there need be none)\n"
		if got := errs.String(); got != want {
			t.Errorf("got\n%swant\n%s", got, want)
		}
	})
}
