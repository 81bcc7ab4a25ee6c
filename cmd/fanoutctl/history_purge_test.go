package main

import "testing"

// Who removes a history is told what stays, and any answer but yes keeps it.
func TestPurgeAsks(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := server(t, "history")
	for _, value := range []string{"1", "2"} {
		if _, errs, code := runWithExitCode(t, address, "put", "history", "db", value); code != exitOK {
			t.Fatal(errs)
		}
	}
	for answer, code := range map[string]int{"\r": exitFailed, "yes\r": exitOK} {
		terminal := inTerminal(t, address, 200, nil, "history", "purge", "history", "db")
		terminal.await(`db exists. Its present value stays(.|\n)*Remove the older values of db from the history of history\? .*\[y/N\]`)
		terminal.press(answer)
		terminal.ends(code)
		if code == exitFailed {
			terminal.await("nothing was removed")
		}
	}
}
