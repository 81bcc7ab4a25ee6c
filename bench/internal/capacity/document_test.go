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

// docs/capacity.md and its drawings are what the constants beside this test give.
func TestTheDocumentIsWhatTheCommandWrites(t *testing.T) {
	c := CheckedIn()
	sections, results, err := Sections(&c, 1)
	if err != nil {
		t.Fatal(err)
	}
	docs := filepath.Join("..", "..", "..", "docs")
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
	drawings, err := filepath.Glob(filepath.Join(dir, "images", "*.svg"))
	if err != nil || len(drawings) == 0 {
		t.Fatalf("there are %d drawings, %v", len(drawings), err)
	}
	files := []string{"capacity.md"}
	for _, d := range drawings {
		files = append(files, filepath.Join("images", filepath.Base(d)))
	}
	for _, name := range files {
		want, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(docs, name)); err != nil || !bytes.Equal(got, want) {
			t.Errorf("docs/%s is not what is written today, %v: run make capacity", name, err)
		}
		if name != "capacity.md" && !strings.Contains(string(text), "("+filepath.ToSlash(name)+")") {
			t.Errorf("docs/capacity.md does not show %s", name)
		}
	}
}

func TestADocumentWithoutMarks(t *testing.T) {
	document := filepath.Join(t.TempDir(), "other.md")
	if err := os.WriteFile(document, []byte("# Other\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Replace(document, []Section{{"nodes", "text"}}); err == nil || !strings.Contains(err.Error(), "nodes") {
		t.Errorf("%v", err)
	}
}

func TestConstantsThatCannotBe(t *testing.T) {
	good, now := string(checkedIn), CheckedIn()
	value := func(c Constant) string { return fmt.Sprintf(`"value": %v,`, c.Value) }
	for name, change := range map[string][2]string{
		"an unknown name":                {`"delivery_alone"`, `"delivery_lonely"`},
		"nothing":                        {value(now.DeliveryAlone), `"value": 0,`},
		"more on a shared connection":    {value(now.DeliveryTogether), `"value": 61,`},
		"no command":                     {`"command": "fanoutbench capacity handshake"`, `"command": ""`},
		"neither measured nor estimated": {`"measured": true`, `"measured": false`},
	} {
		if _, err := parse([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: is taken", name)
		}
	}
	if _, err := parse([]byte(`{}`)); err == nil {
		t.Error("a file without constants is taken")
	}
}

func TestWhatANodeHolds(t *testing.T) {
	c := CheckedIn()
	c.DeliveryAlone.Value, c.DeliveryTogether.Value = 10, 1
	c.ConnectionMemory.Value, c.WatchMemory.Value, c.TLSMemory.Value = 50, 10, 40
	c.ServerMemory.Value, c.ObjectMemory.Value = 36, 3
	n := Node{Cores: 8, Memory: 10, Network: 1}
	l := Load{PerConnection: 1, TLS: true, Events: 2, EventBytes: 500, State: 100}
	held := c.Holds(n, l)
	// Half of 8 cores, at 10 µs and two events; 9 GiB without 400 MiB, at 100 KiB; half of
	// a gigabit, at two times 500 bytes.
	if want := (Held{Processors: 200_000, Memory: 90_275, Network: 62_500}); held != want {
		t.Errorf("a node holds %+v, want %+v", held, want)
	}
	if watches, bound := held.Watches(); watches != 62_500 || bound != "network" {
		t.Errorf("it holds %d, bound by %s", watches, bound)
	}
	l.PerConnection = 100
	// 1 µs; 1,090 KiB for a hundred.
	if held := c.Holds(n, l); held.Processors != 2_000_000 || held.Memory != 828_200 {
		t.Errorf("with 100 on a connection it holds %+v", held)
	}
	if n := Replicas(1_000_000, 100_000, 3); n != 15 {
		t.Errorf("%d servers, want 15: two zones of five hold all", n)
	}
}

func TestHandshake(t *testing.T) {
	took, err := Handshake(context.Background(), 5)
	if err != nil || took <= 0 {
		t.Errorf("a handshake takes %v, %v", took, err)
	}
}
