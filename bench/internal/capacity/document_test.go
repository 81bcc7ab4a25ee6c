package capacity

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// docs/dev/capacity.md and its plots match the constants in this package.
func TestDocumentIsUpToDate(t *testing.T) {
	c := DefaultConstants()
	sections, results, err := Sections(&c, 1)
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join("..", "..", "..", "docs", "dev")
	dir := t.TempDir()
	document := filepath.Join(dir, "capacity.md")
	text, err := os.ReadFile(filepath.Join(docs, "capacity.md"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(document, text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(document, sections); err != nil {
		t.Fatal(err)
	}
	if err := DrawAll(filepath.Join(dir, "images"), &c, results); err != nil {
		t.Fatal(err)
	}
	plots, err := filepath.Glob(filepath.Join(dir, "images", "*.svg"))
	if err != nil || len(plots) == 0 {
		t.Fatalf("got %d plots, error %v", len(plots), err)
	}
	files := []string{"capacity.md"}
	for _, plot := range plots {
		files = append(files, filepath.Join("images", filepath.Base(plot)))
	}
	for _, name := range files {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(docs, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/dev/%s is not up to date (read error: %v): run make capacity", name, err)
		}
		if name != "capacity.md" && !strings.Contains(string(text), "("+filepath.ToSlash(name)+")") {
			t.Errorf("docs/dev/capacity.md does not show %s", name)
		}
	}
}

func TestReplaceNeedsMarkerLines(t *testing.T) {
	document := filepath.Join(t.TempDir(), "other.md")
	if err := os.WriteFile(document, []byte("# Other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(document, []Section{{"nodes", "text"}}); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("got error %v, want one that names the missing lines", err)
	}
}

func TestInvalidConstantsAreRefused(t *testing.T) {
	text, c := string(defaultConstants), DefaultConstants()
	value := func(c Constant) string { return fmt.Sprintf(`"value": %v,`, c.Value) }
	for name, change := range map[string][2]string{
		"an unknown name":                {`"delivery_alone"`, `"delivery_lonely"`},
		"zero":                           {value(c.DeliveryAlone), `"value": 0,`},
		"shared connection costs more":   {value(c.DeliveryTogether), `"value": 61,`},
		"no command":                     {`"command": "fanoutbench capacity handshake"`, `"command": ""`},
		"neither measured nor estimated": {`"measured": true`, `"measured": false`},
	} {
		if _, err := parse([]byte(strings.Replace(text, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: got no error, want one", name)
		}
	}
	if _, err := parse([]byte(`{}`)); err == nil {
		t.Error("a file without constants: got no error, want one")
	}
}

func TestNodeCapacity(t *testing.T) {
	c := DefaultConstants()
	c.DeliveryAlone.Value, c.DeliveryTogether.Value = 10, 1
	c.ConnectionMemory.Value, c.WatchMemory.Value, c.TLSMemory.Value = 50, 10, 40
	c.ServerMemory.Value, c.ObjectMemory.Value = 36, 3
	n := Node{Cores: 8, Memory: 10, Network: 1}
	l := Load{PerConnection: 1, TLS: true, Events: 2, EventBytes: 500, State: 100}
	held := c.NodeCapacity(n, l)
	// Each watch has two events per second. The processors are half of 8 cores, at 10 µs per
	// event. The memory is 9 GiB less 464 MiB, at 100 KiB per watch. The network is half of
	// 1 Gbit/s, at 500 bytes per event.
	if want := (NodeCapacity{Processors: 200_000, Memory: 89_620, Network: 62_500}); held != want {
		t.Errorf("got %+v, want %+v", held, want)
	}
	if watches, bound := held.Watches(); watches != 62_500 || bound != "network" {
		t.Errorf("got %d watches, limited by %s, want 62500, limited by network", watches, bound)
	}
	l.PerConnection = 100
	// An event costs 1 µs, and a connection with its hundred watches 1,090 KiB.
	if held := c.NodeCapacity(n, l); held.Processors != 2_000_000 || held.Memory != 822_200 {
		t.Errorf("100 watches on a connection: got %+v, want 2000000 by processors and 822200 by memory", held)
	}
	if n := Replicas(1_000_000, 100_000, 3); n != 15 {
		t.Errorf("got %d servers, want 15: two of three zones hold all watches with five servers each", n)
	}
}

func TestHandshakeTakesCPUTime(t *testing.T) {
	took, err := Handshake(context.Background(), 5)
	if err != nil || took <= 0 {
		t.Errorf("got %v and error %v, want more than 0", took, err)
	}
}
