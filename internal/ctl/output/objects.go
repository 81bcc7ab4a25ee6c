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

func objectColumns(wide bool) []Column {
	columns := []Column{{Title: "KEY", Style: Name}, {Title: "REVISION", Right: true}}
	if wide {
		columns = append(columns, Column{Title: "CREATED", Right: true}, Column{Title: "VERSION", Right: true}, Column{Title: "TYPE", Style: Faint},
			Column{Title: "SIZE", Right: true})
	}
	return append(columns, Column{Title: "LABELS", Style: Faint}, Column{Title: "VALUE"})
}

// objectCells returns the cells of an object. The revision is its ModRevision, or that of
// the change that it is shown for.
func objectCells(o *client.Object, revision int64, wide bool) []string {
	cells := []string{o.Key, strconv.FormatInt(revision, 10)}
	if wide {
		cells = append(cells, strconv.FormatInt(o.CreateRevision, 10), strconv.FormatInt(o.Version, 10), o.ContentType, size(len(o.Value)))
	}
	return append(cells, labels(o.Labels), preview(o))
}

func size(n int) string { return humanize.IBytes(uint64(n)) }

// labels formats labels like a selector.
func labels(all map[string]string) string {
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
		return fmt.Sprintf("(%s of binary data)", size(len(o.Value)))
	}
	return strings.Join(strings.Fields(string(v)), " ")
}
