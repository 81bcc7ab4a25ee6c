package main

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// All commands show the messages of the codec protobuf in their JSON form, and write what they have
// shown as the same bytes.
func TestMessagesAreShownInJSON(t *testing.T) {
	set, err := os.ReadFile("../../internal/object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cfg := inprocess.Config(t)
	r := config.NewResource("routes")
	r.Codec, r.DescriptorSet, r.Descriptors, r.Message = "protobuf", "route.binpb", set, "acme.v1.Route"
	cfg.Resources = []config.Resource{r}
	address := inprocess.Start(t, cfg).Address()
	editor := ""
	fanoutctl := func(args ...string) (stdout, stderr string) {
		t.Helper()
		environ := []string{"HOME=" + dir, "FANOUTCTL_SERVER=" + address, "FANOUTCTL_EDITOR=" + editor, "TMPDIR=" + dir, "PATH=" + os.Getenv("PATH")}
		var out, errs strings.Builder
		if code := run(t.Context(), args, environ, strings.NewReader(""), &out, &errs); code != exitOK {
			t.Fatalf("fanoutctl %s: got exit code %d, %q and %q", strings.Join(args, " "), code, out.String(), errs.String())
		}
		return out.String(), errs.String()
	}
	c, err := client.New(address, client.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	stored := func(key string) string {
		t.Helper()
		o, err := c.Resource("routes").Get(t.Context(), key)
		if err != nil || o.ContentType != "application/protobuf" {
			t.Fatalf("%s: got %v, %v", key, o, err)
		}
		return string(o.Value)
	}

	const text = `{"metadata":{"labels":{"team":"web"}},"region":"eu","hosts":["a"],"quota":"9007199254740993"}`
	fanoutctl("put", "routes", "a/1", text)
	before := stored("a/1")
	if len(before) == len(text) {
		t.Fatalf("stored %q", before)
	}
	for _, args := range [][]string{
		{"get", "routes", "a/1"},
		{"get", "routes", "a/1", "-o", "jsonl"},
		{"list", "routes"},
		{"list", "routes", "-o", "jsonl"},
		{"list", "routes", "-o", "go-template={{toJSON .value}}"},
		{"watch", "routes", "--count", "1", "-o", "jsonl"},
		{"export", "routes", "-o", "jsonl"},
	} {
		out, _ := fanoutctl(args...)
		for _, part := range []string{`"region":"eu"`, `"quota":"9007199254740993"`} {
			if !strings.Contains(out, part) {
				t.Errorf("fanoutctl %s: got %s, want %s", strings.Join(args, " "), out, part)
			}
		}
	}
	if out, _ := fanoutctl("describe", "routes", "a/1"); !strings.Contains(out, `"region": "eu"`) && !strings.Contains(out, `"region":"eu"`) {
		t.Errorf("describe: got %s", out)
	}
	template := filepath.Join(dir, "template")
	if err := os.WriteFile(template, []byte(`{{range .Objects}}{{.JSON.region}} {{index .JSON.hosts 0}}{{end}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	rendered := filepath.Join(dir, "rendered")
	fanoutctl("watch", "routes", "--render", rendered+"="+template, "--once")
	if got, err := os.ReadFile(rendered); err != nil || string(got) != "eu a" {
		t.Errorf("rendered %q, %v", got, err)
	}

	// What is shown is stored as the same bytes.
	editor = "sed -i s/eu/us/"
	fanoutctl("edit", "routes", "a/1")
	if got := stored("a/1"); got != strings.Replace(before, "eu", "us", 1) {
		t.Errorf("after an edit: got %q, want %q with us", got, before)
	}
	editor = "sed -i s/us/eu/"
	fanoutctl("edit", "routes", "a/1")
	fanoutctl("put", "routes", "empty", "{}")
	for _, file := range []string{"out.yaml", "out.jsonl", "out/"} {
		path := filepath.Join(dir, file)
		if strings.HasSuffix(file, "/") {
			path += "/"
		}
		fanoutctl("export", "routes", path)
		if _, errs := fanoutctl("import", "routes", path); !strings.Contains(errs, "2 unchanged") {
			t.Errorf("%s: the import says %q", file, errs)
		}
		fanoutctl("delete", "routes", "a/1")
		fanoutctl("import", "routes", path)
		if got := stored("a/1"); got != before {
			t.Errorf("%s: the import stores %q, want %q", file, got, before)
		}
	}

	// A document with the binary form, which earlier versions exported, equals the object, too.
	binary := fmt.Sprintf(`{"key":"a/1","contentType":"application/protobuf","data":%q}`, base64.StdEncoding.EncodeToString([]byte(before)))
	file := filepath.Join(dir, "binary.jsonl")
	if err := os.WriteFile(file, []byte(binary), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errs := fanoutctl("import", "routes", file); !strings.Contains(errs, "1 unchanged") {
		t.Errorf("the import of a binary document says %q", errs)
	}
}
