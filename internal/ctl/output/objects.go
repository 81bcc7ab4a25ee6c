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

// Objects returns a list of objects.
func (p Printer) Objects() *List[*client.Object] {
	itself := func(o *client.Object) *client.Object { return o }
	revision := func(o *client.Object) int64 { return o.ModRevision }
	return &List[*client.Object]{
		Printer: p, Columns: objectColumns(p.Format == Wide, itself, revision), Array: true,
		Value:    func(o *client.Object) []byte { return o.Value },
		Document: func(o *client.Object) any { return document.Of(o) },
	}
}

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

// objectColumns returns the columns of items that show an object. The revision is that of the change that it is
// shown for.
func objectColumns[T any](wide bool, object func(T) *client.Object, revision func(T) int64) []Column[T] {
	columns := []Column[T]{
		{Title: "KEY", Cell: func(item T) string { return object(item).Key }, Style: Name},
		{Title: "REVISION", Cell: func(item T) string { return strconv.FormatInt(revision(item), 10) }, Right: true},
	}
	if wide {
		columns = append(columns, []Column[T]{
			{Title: "CREATED", Cell: func(item T) string { return strconv.FormatInt(object(item).CreateRevision, 10) }, Right: true},
			{Title: "VERSION", Cell: func(item T) string { return strconv.FormatInt(object(item).Version, 10) }, Right: true},
			{Title: "TYPE", Cell: func(item T) string { return object(item).ContentType }, Style: Faint},
			{Title: "SIZE", Cell: func(item T) string { return Size(len(object(item).Value)) }, Right: true},
		}...)
	}
	return append(columns,
		Column[T]{Title: "LABELS", Cell: func(item T) string { return Labels(object(item).Labels) }, Style: Faint},
		Column[T]{Title: "VALUE", Cell: func(item T) string { return Preview(object(item)) }})
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

// Preview returns the beginning of a value on one line.
func Preview(o *client.Object) string {
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
