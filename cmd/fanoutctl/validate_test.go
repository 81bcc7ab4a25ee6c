package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// validate shows what the server would refuse, and writes nothing.
func TestValidate(t *testing.T) {
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	cfg := inprocess.Config(t)
	r := config.NewResource("flags")
	r.Codec, r.ValidationFile = "json", file("rules.yaml", `
checks:
  - keys: ["shop/*"]
    schema: {properties: {percent: {maximum: 100}}}
    rules: [{rule: oldSelf == null || self.percent >= oldSelf.percent, message: percent must not fall}]
`)
	cfg.Resources = []config.Resource{r}
	address := inprocess.Start(t, cfg).Address()
	fanoutctl := func(input string, args ...string) (code int, out, errs string) {
		environ := []string{"HOME=" + dir, "FANOUTCTL_SERVER=" + address, "PATH=" + os.Getenv("PATH")}
		var stdout, stderr strings.Builder
		code = run(t.Context(), args, environ, strings.NewReader(input), &stdout, &stderr)
		return code, stdout.String(), stderr.String()
	}
	for _, object := range [][]string{{"shop/good", `{"percent": 50}`}, {"shop/bad", `{"percent": 5000}`}, {"other", `{"percent": 5000}`}} {
		if code, _, errs := fanoutctl("", "put", "flags", object[0], object[1], "--skip-validation"); code != exitOK {
			t.Fatal(errs)
		}
	}
	const bad = "/percent must be at most 100, is 5000\n"
	documents := file("documents.yaml", "key: shop/good\ntext: '{\"percent\": 10}'\n---\nkey: shop/new\ntext: '{\"percent\": 5000}'\n---\nkey: shop/fine\ntext: '{\"percent\": 5}'\n")
	for _, c := range []struct {
		args      []string
		code      int
		out, errs string
	}{
		{[]string{"--stored"}, exitFailed, "shop/bad: " + bad, "1 of 3 objects refused"},
		{[]string{"--stored", "--prefix", "/other/"}, exitOK, "", "0 checked, none refused.\n"},
		{[]string{"--stored", "--prefix", "shop"}, exitFailed, "shop/bad: " + bad, "1 of 2 objects refused"},
		{[]string{documents}, exitFailed, documents + " line 2: shop/good: percent must not fall\n" + documents + " line 5: shop/new: " + bad, "2 of 3 objects refused"},
		{[]string{"-"}, exitOK, "", "1 checked, none refused.\n"},
		{nil, exitUsage, "", "missing FILE"},
		{[]string{"--stored", documents}, exitUsage, "", "mutually exclusive"},
		{[]string{documents, "--prefix", "shop"}, exitUsage, "", "--prefix requires --stored"},
	} {
		code, out, errs := fanoutctl("key: shop/x\ntext: '{\"percent\": 100}'\n", append([]string{"validate", "flags"}, c.args...)...)
		if code != c.code || out != c.out || !strings.Contains(errs, c.errs) {
			t.Errorf("validate flags %s: got exit code %d, %q, %q; want %d, %q, %q", strings.Join(c.args, " "), code, out, errs, c.code, c.out, c.errs)
		}
	}
	if _, out, _ := fanoutctl("", "get", "flags", "shop/good"); !strings.Contains(out, `{"percent": 50}`) {
		t.Errorf("validate has changed shop/good: %s", out)
	}
	if code, out, _ := fanoutctl("", "get", "flags", "shop/new"); code == exitOK {
		t.Errorf("validate has written shop/new: %s", out)
	}
}
