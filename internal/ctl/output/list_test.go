package output_test

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/output"
)

type record struct {
	Name string `json:"name"`
}

// printAll returns what a list of objects, the events of an update and a list of records look like in a format. Each has
// an item for each of the names.
func printAll(t *testing.T, format output.Format, names ...string) map[string]string {
	t.Helper()
	var objects, events, records strings.Builder
	list := output.Printer{W: &objects, Format: format}.Objects()
	update := &client.Update{Phase: client.PhaseLive}
	var rows []record
	for _, name := range names {
		o := &client.Object{Key: name, ModRevision: 7, Value: []byte("v" + name)}
		if err := list.Add(o); err != nil {
			t.Fatal(err)
		}
		update.Events = append(update.Events, client.Event{Type: client.Added, Revision: 7, Object: o})
		rows = append(rows, record{name})
	}
	if err := list.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (output.Printer{W: &events, Format: format}).Events().Show(update); err != nil {
		t.Fatal(err)
	}
	columns := []output.Column[record]{{Title: "NAME", Cell: func(r record) string { return r.Name }}}
	if err := output.Records(output.Printer{W: &records, Format: format}, columns, rows); err != nil {
		t.Fatal(err)
	}
	return map[string]string{"objects": ansi.Strip(objects.String()), "events": ansi.Strip(events.String()), "records": ansi.Strip(records.String())}
}

func TestFormats(t *testing.T) {
	for format, want := range map[output.Format]map[string]string{
		output.Table: {
			"objects": "KEY  REVISION  LABELS  VALUE\na           7  -       va\nb           7  -       vb\n",
			"events":  "EVENT     KEY  REVISION  LABELS  VALUE\nADDED     a           7  -       va\nADDED     b           7  -       vb\n",
			"records": "NAME\na\nb\n",
		},
		output.JSON: {
			"objects": "[\n  {\n    \"key\": \"a\",\n    \"text\": \"va\",\n    \"modRevision\": 7\n  },\n  {\n    \"key\": \"b\",\n    \"text\": \"vb\",\n    \"modRevision\": 7\n  }\n]\n",
			"records": "[\n  {\n    \"name\": \"a\"\n  },\n  {\n    \"name\": \"b\"\n  }\n]\n",
		},
		output.JSONL: {
			"objects": "{\"key\":\"a\",\"text\":\"va\",\"modRevision\":7}\n{\"key\":\"b\",\"text\":\"vb\",\"modRevision\":7}\n",
			"records": "{\"name\":\"a\"}\n{\"name\":\"b\"}\n",
		},
		output.YAML: {
			"objects": "key: a\ntext: va\nmodRevision: 7\n---\nkey: b\ntext: vb\nmodRevision: 7\n",
			"records": "name: a\n---\nname: b\n",
		},
		output.Value:       {"objects": "va\nvb\n", "events": "va\nvb\n", "records": "{\"name\":\"a\"}\n{\"name\":\"b\"}\n"},
		output.Key:         {"objects": "a\nb\n", "events": "a\nb\n", "records": "a\nb\n"},
		"jsonpath={.name}": {"records": "a\nb\n"},
		"jsonpath={.key}":  {"objects": "a\nb\n"},
	} {
		got := printAll(t, format, "a", "b")
		for what, text := range want {
			if got[what] != text {
				t.Errorf("%s as %s: got\n%s\nwant\n%s", what, format, got[what], text)
			}
		}
	}
	for _, format := range output.Formats {
		want := ""
		if format == output.JSON {
			want = "[]\n"
		}
		if got := printAll(t, format); got["objects"] != want || got["records"] != want || got["events"] != "" {
			t.Errorf("nothing as %s: got %q", format, got)
		}
	}
}

func TestADeletedObjectHasNoValue(t *testing.T) {
	var b strings.Builder
	u := &client.Update{Phase: client.PhaseLive, Events: []client.Event{{Type: client.Deleted, Object: &client.Object{Key: "a", Value: []byte("1")}}}}
	if err := (output.Printer{W: &b, Format: output.Value}).Events().Show(u); err != nil || b.Len() > 0 {
		t.Errorf("got %q, %v", b.String(), err)
	}
}
