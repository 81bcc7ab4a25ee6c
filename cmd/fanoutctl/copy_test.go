package main

import (
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/certs"
)

// What changes at the target between the question and the answer is not overwritten, whether it was there or not.
func TestCopyKeepsWhatHasChangedMeanwhile(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	address := server(t, "test", "prod")
	c, err := client.New(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	put := func(resource, key, value string) {
		t.Helper()
		if _, err := c.Resource(resource).Put(t.Context(), key, client.Text(value)); err != nil {
			t.Fatal(err)
		}
	}
	put("test", "a", "new")
	put("test", "b", "new")
	put("prod", "a", "old")
	for _, key := range []string{"a", "b"} {
		terminal := inTerminal(t, address, 120, nil, "copy", "test", "/", "--to-resource", "prod")
		terminal.await(`Make 2 changes to prod of 127[0-9.:]+\? \[y/N\]`)
		put("prod", key, "theirs")
		terminal.press("y\r")
		terminal.await(`"` + key + `" has changed at the target since the comparison`)
		terminal.ends(exitConflict)
		if o, err := c.Resource("prod").Get(t.Context(), key); err != nil || string(o.Value) != "theirs" {
			t.Errorf("%s: got %v, %v, want the value of another client", key, o, err)
		}
		if key == "b" {
			break
		}
		if _, err := c.Resource("prod").Get(t.Context(), "b"); !isNotFound(err) {
			t.Errorf("a part of the transaction was applied: %v", err)
		}
	}
	terminal := inTerminal(t, address, 120, nil, "copy", "test", "/", "--to-resource", "prod")
	terminal.await(`\[y/N\]`)
	terminal.press("n\r")
	terminal.ends(exitFailed)
	terminal.await("nothing was copied")
}

// The credentials of the source do not reach the target, and those of the target's context do.
func TestCopySendsTheTargetOnlyItsOwnCredentials(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	source := server(t, "config")
	if _, errs, code := runWithExitCode(t, source, "put", "config", "a", "1"); code != exitOK {
		t.Fatal(errs)
	}
	ours := certs.NewAuthority(t)
	target := denyingServer(t, ours.Issue(t, certs.Subject{DNSNames: []string{"fanoutd.example"}}).TLS(t), ours.Pool())
	home := t.TempDir()
	token := home + "/token"
	certs.Write(t, token, []byte("of-the-target\n"))
	fanoutctl := func(want string, code int, args ...string) {
		t.Helper()
		var out, errs strings.Builder
		environ := []string{"HOME=" + home, "FANOUTCTL_TOKEN=of-the-source", "FANOUTCTL_CONFIG=" + home + "/contexts.yaml"}
		if got := run(t.Context(), args, environ, strings.NewReader(""), &out, &errs); got != code || !strings.Contains(errs.String(), want) {
			t.Errorf("got exit code %d and %q, want %d and %q", got, &errs, code, want)
		}
	}
	fanoutctl("created", exitOK, "context", "set", "here", "--server", source)
	fanoutctl("created", exitOK, "context", "set", "none", "--server", target, "--ca-file", ours.File, "--server-name", "fanoutd.example")
	fanoutctl("created", exitOK, "context", "set", "own", "--server", target, "--ca-file", ours.File, "--server-name", "fanoutd.example", "--token-file", token)
	fanoutctl(target+` denied the request: anonymous with token ""`, exitDenied, "copy", "config", "a", "--to-context", "none", "--yes")
	fanoutctl(`anonymous with token "Bearer of-the-target"`, exitDenied, "copy", "config", "a", "--to-context", "own", "--yes")
}

// The message of a copy names the source as far as there is room, and keeps what the user says.
func TestMessageOfACopyIsBounded(t *testing.T) {
	if got, want := copyMessage("test (a:1)", "config", "shop/", 42, "why"), "copy of test (a:1), config shop/ at revision 42: why"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := copyMessage("test", "config", strings.Repeat("ä", 512), 42, "why")
	if len(got) > maxSourceBytes+64 || !strings.HasSuffix(got, "ä… at revision 42: why") {
		t.Errorf("got %d bytes: %q", len(got), got)
	}
}
