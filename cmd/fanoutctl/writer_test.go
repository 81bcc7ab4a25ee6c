package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/known/structpb"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
	"github.com/fanoutd/fanoutd/test/inprocess"
)

// A caller that may read and write a resource, but not administer it, leaves no denials in the audit log,
// whatever the codec.
func TestWritersAreNotDenied(t *testing.T) {
	token, line, err := access.NewToken("writer", nil)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		certs.Write(t, path, []byte(content))
		return path
	}
	cfg := inprocess.Config(t)
	cfg.Resources = nil
	for resource, codec := range map[string]string{"objects": "object", "documents": "json", "blobs": "raw", "messages": "protobuf"} {
		r := config.NewResource(resource)
		r.Codec = codec
		if codec == "protobuf" {
			r.DescriptorSet, r.Descriptors, r.Message = "struct.binpb", structDescriptors(t), "google.protobuf.Struct"
		}
		cfg.Resources = append(cfg.Resources, r)
	}
	cfg.TokenFile = file("tokens", line)
	cfg.PolicyFile = file("policy.yaml", `rules: [{subjects: [writer], verbs: [get, list, put, delete], resources: ["*"]}]`)
	cfg.AuditLog = filepath.Join(dir, "audit.log")
	server := inprocess.Start(t, cfg)
	editor := ""
	fanoutctl := func(want string, args ...string) {
		t.Helper()
		environ := []string{"HOME=" + dir, "FANOUTCTL_SERVER=" + server.Address(), "FANOUTCTL_TOKEN=" + token, "FANOUTCTL_EDITOR=" + editor, "PATH=" + os.Getenv("PATH")}
		var out, errs strings.Builder
		if code := run(t.Context(), args, environ, strings.NewReader(""), &out, &errs); code != exitOK || !strings.Contains(out.String(), want) {
			t.Errorf("fanoutctl %s: got exit code %d, %q and %q, want %q", strings.Join(args, " "), code, out.String(), errs.String(), want)
		}
	}
	value := `{"n":1,"metadata":{"labels":{"team":"web"}}}`
	page := file("page.yaml", `{"n": 3}`)
	objects := file("objects.json", `{"key":"imported","value":{"n":1},"labels":{"team":"web"}}`)
	for resource, contentType := range map[string]string{
		"objects": "application/json", "documents": "application/json", "blobs": "application/octet-stream", "messages": "application/json",
	} {
		fanoutctl("", "put", resource, "put", value)
		fanoutctl("", "put", resource, "file", "--file", page)
		editor = "cp " + page
		fanoutctl("", "edit", resource, "new.yaml", "--create")
		editor = "sed -i s/1/2/"
		fanoutctl("", "edit", resource, "put")
		fanoutctl(`"n":2`, "get", resource, "put")
		fanoutctl("", "txn", resource, "--put", `txn={"n":1}`, "--put", "txn2="+value)
		fanoutctl(contentType, "get", resource, "txn", "-o", "json")
	}
	fanoutctl("application/yaml", "get", "objects", "file", "-o", "json")
	fanoutctl("", "import", "objects", objects)
	fanoutctl("", "import", "objects", objects)
	fanoutctl(`"team":"web"`, "get", "objects", "imported", "-o", "jsonl")
	server.Stop()
	log, err := os.ReadFile(cfg.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	if writes := strings.Count(string(log), `"msg":"write"`); writes == 0 || strings.Contains(string(log), `"msg":"denied"`) {
		t.Errorf("got %d writes in the audit log, want several and no denials:\n%s", writes, log)
	}
}

// structDescriptors returns a descriptor set with google.protobuf.Struct, whose JSON form is any JSON object.
func structDescriptors(t *testing.T) []byte {
	set := &descriptorpb.FileDescriptorSet{File: []*descriptorpb.FileDescriptorProto{
		protodesc.ToFileDescriptorProto(structpb.File_google_protobuf_struct_proto),
	}}
	data, err := proto.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
