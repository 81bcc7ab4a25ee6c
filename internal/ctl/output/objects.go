package output

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Objects prints a list of objects as they arrive. Call Add for each object and Close at the
// end. Not safe for concurrent use.
type Objects struct{ list *list[client.Event] }

// Objects returns an Objects that prints in the format.
func (p Printer) Objects() *Objects {
	return &Objects{newList(p, content[client.Event]{
		columns: objectColumns(p.Format == Wide), key: keyOf, value: valueOf,
		document: func(e client.Event) any { return document.Of(e.Object) },
	})}
}

// Add prints one more object.
func (l *Objects) Add(o *client.Object) error {
	return l.list.addElement(client.Event{Object: o, Revision: o.ModRevision})
}

// Close ends the list.
func (l *Objects) Close() error { return l.list.close() }

// Object prints a single object: as JSON without an array, and the value exactly.
func (p Printer) Object(o *client.Object) error {
	switch {
	case p.Format.IsRecord():
		return p.Record(document.Of(o))
	case p.Format == Value:
		_, err := p.W.Write(o.Value)
		return err
	}
	list := p.Objects()
	if err := list.Add(o); err != nil {
		return err
	}
	return list.Close()
}

func keyOf(e client.Event) string   { return e.Object.Key }
func valueOf(e client.Event) []byte { return e.Object.Value }

// objectColumns returns the columns of objects. The revision is that of the change that an object is
// shown for.
func objectColumns(wide bool) []Column[client.Event] {
	columns := []Column[client.Event]{
		{Title: "KEY", Cell: keyOf, Style: Name},
		{Title: "REVISION", Cell: func(e client.Event) string { return strconv.FormatInt(e.Revision, 10) }, Right: true},
	}
	if wide {
		columns = append(columns, []Column[client.Event]{
			{Title: "CREATED", Cell: func(e client.Event) string { return strconv.FormatInt(e.Object.CreateRevision, 10) }, Right: true},
			{Title: "VERSION", Cell: func(e client.Event) string { return strconv.FormatInt(e.Object.Version, 10) }, Right: true},
			{Title: "TYPE", Cell: func(e client.Event) string { return e.Object.ContentType }, Style: Faint},
			{Title: "SIZE", Cell: func(e client.Event) string { return Size(len(e.Object.Value)) }, Right: true},
		}...)
	}
	return append(columns,
		Column[client.Event]{Title: "LABELS", Cell: func(e client.Event) string { return Labels(e.Object.Labels) }, Style: Faint},
		Column[client.Event]{Title: "VALUE", Cell: func(e client.Event) string { return preview(e.Object) }})
}

// Size formats a number of bytes.
func Size[N int | int64](n N) string { return humanize.IBytes(uint64(n)) }

// Labels formats labels like a selector.
func Labels(all map[string]string) string {
	if len(all) == 0 {
		return "-"
	}
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, name+"="+all[name])
	}
	return strings.Join(parts, ",")
}

// maxPreview is the maximum number of bytes of a value in a table.
const maxPreview = 4096

// preview returns the beginning of a value on one line.
func preview(o *client.Object) string {
	v := o.Value
	if document.IsJSON(o.ContentType) {
		var b bytes.Buffer
		if json.Compact(&b, v) == nil {
			v = b.Bytes()
		}
	}
	v = v[:min(len(v), maxPreview)]
	for len(v) > 0 && len(v) == maxPreview && !utf8.Valid(v) && !utf8.Valid(v[len(v)-1:]) {
		v = v[:len(v)-1] // a truncated character
	}
	if !utf8.Valid(v) {
		return fmt.Sprintf("(%s of binary data)", Size(len(o.Value)))
	}
	return strings.Join(strings.Fields(string(v)), " ")
}
