package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// A time means the same revision for every scope, so a caller with rights to one path can use it there.
func TestTimesNeedNoRightToTheWholeResource(t *testing.T) {
	token, line, err := access.NewToken("team", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, cfg := t.TempDir(), inprocess.Config(t)
	cfg.TokenFile, cfg.PolicyFile = filepath.Join(dir, "tokens"), filepath.Join(dir, "policy.yaml")
	certs.Write(t, cfg.TokenFile, []byte(line))
	certs.Write(t, cfg.PolicyFile, []byte(`rules: [{subjects: [team], verbs: [get, list, put, history], resources: [config], prefixes: [team]}, {subjects: [team], verbs: [history], resources: [config], prefixes: [audited]}]`))
	server := inprocess.Start(t, cfg)
	environ := []string{"HOME=" + dir, "FANOUTCTL_SERVER=" + server.Address(), "FANOUTCTL_TOKEN=" + token, "PATH=" + os.Getenv("PATH")}
	for _, args := range [][]string{
		{"put", "config", "team/a", "1"},
		{"history", "config", "team/", "--at", "0s"},
		{"history", "config", "audited/a"}, // the right "history" is enough, even if there is none
		{"get", "config", "team/a", "--at", "0s"},
		{"diff", "config", "team/a", "--from", "0s"},
		{"diff", "config", "team/", "--from", "0s"},
		{"list", "config", "team", "--at", "0s"},
		{"rollback", "config", "team/", "--to", "0s", "--yes"},
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), args, environ, strings.NewReader(""), &out, &errs); code != exitOK {
			t.Errorf("fanoutctl %s: got exit code %d, %q and %q", strings.Join(args, " "), code, out.String(), errs.String())
		}
	}
}
