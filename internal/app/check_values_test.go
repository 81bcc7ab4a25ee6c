package app_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/app"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/loopback"
)

// CheckEtcd warns of values that do not fit the codec of their resource, and names the one that can
// decode them.
func TestCheckEtcdSamplesValues(t *testing.T) {
	running := inprocess.Config(t)
	running.EmbeddedEtcdListen = loopback.FreeAddress(t)
	inprocess.Start(t, running)
	etcd, err := clientv3.New(clientv3.Config{Endpoints: []string{running.EmbeddedEtcdListen}, Logger: zap.NewNop()})
	if err != nil {
		t.Fatal(err)
	}
	defer etcd.Close()
	set, err := os.ReadFile("../object/testdata/route.binpb")
	if err != nil {
		t.Fatal(err)
	}
	const envelope = "\x00fo\x01\x1a\x01x"
	many := make([]string, 300)
	for i := range many {
		many[i] = `{"n": 1}`
	}
	for i, c := range []struct {
		codec  string
		values []string
		want   string // the end of the warning; empty: none
	}{
		{"object", nil, ""},
		{"object", []string{envelope, envelope}, ""},
		{"object", []string{`{"rps": 1}`, envelope, `[]`}, `2 of 3 values cannot be decoded with codec "object", such as that of "k000" (not an envelope: no magic prefix); the codec "json" can decode them`},
		{"object", []string{"rps: 1", `{"rps": 1}`}, `2 of 2 values cannot be decoded with codec "object", such as that of "k000" (not an envelope: no magic prefix); the codec "raw" can decode them`},
		{"object", many, `256 of the first 256 values cannot be decoded with codec "object", such as that of "k000" (not an envelope: no magic prefix); the codec "json" can decode them`},
		{"json", []string{`{}`, envelope}, `1 of 2 values cannot be decoded with codec "json", such as that of "k001" (not a JSON document); the codec "object" can decode them`},
		{"protobuf", []string{"\x12\x02eu", `{"region": "eu"}`}, `1 of 2 values cannot be decoded with codec "protobuf", such as that of "k001" (not a message acme.v1.Route: cannot parse invalid wire-format data); the codec "json" can decode them`},
		{"raw", []string{"x", envelope}, ""},
	} {
		r := config.NewResource(fmt.Sprint("r", i))
		r.Codec = c.codec
		if c.codec == "protobuf" {
			r.DescriptorSet, r.Descriptors, r.Message = "route.binpb", set, "acme.v1.Route"
		}
		for n, value := range c.values {
			if _, err := etcd.Put(t.Context(), fmt.Sprintf("%sk%03d", r.Prefix, n), value); err != nil {
				t.Fatal(err)
			}
		}
		cfg := config.Defaults()
		cfg.EtcdEndpoints, cfg.Resources = []string{running.EmbeddedEtcdListen}, []config.Resource{r}
		got, err := app.CheckEtcd(t.Context(), cfg, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		var want []string
		if c.want != "" {
			want = []string{fmt.Sprintf("resource %s (prefix %s): %s", r.Name, r.Prefix, c.want)}
		}
		if !slices.Equal(got, want) {
			t.Errorf("codec %s: got %q, want %q", c.codec, got, want)
		}
	}
}

// It decrypts values with the keys of the configuration, and warns if it cannot.
func TestCheckEtcdDecryptsValues(t *testing.T) {
	running := inprocess.Config(t)
	running.EmbeddedEtcdListen = loopback.FreeAddress(t)
	keyset, id, err := crypt.Create()
	if err != nil {
		t.Fatal(err)
	}
	running.KeysetFile = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(running.KeysetFile, keyset, 0o600); err != nil {
		t.Fatal(err)
	}
	server := inprocess.Start(t, running)
	c, err := client.New(server.Address(), client.WithInsecure())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r := running.Resources[0]
	if _, err := c.Resource(r.Name).Put(t.Context(), "k", client.Text("x")); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string][]string{
		running.KeysetFile: nil,
		"":                 {fmt.Sprintf(`resource %s (prefix %s): 1 of 1 values cannot be decoded with codec "object", such as that of "k" (the value is encrypted with key %d, which is not in the keyset)`, r.Name, r.Prefix, id)},
	} {
		cfg := config.Defaults()
		cfg.EtcdEndpoints, cfg.Resources, cfg.KeysetFile = []string{running.EmbeddedEtcdListen}, running.Resources[:1], file
		if got, err := app.CheckEtcd(t.Context(), cfg, slog.New(slog.DiscardHandler)); err != nil || !slices.Equal(got, want) {
			t.Errorf("keyset %q: got %q, %v, want %q", file, got, err, want)
		}
	}
}
