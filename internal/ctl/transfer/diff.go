package transfer

import (
	"bytes"
	"encoding/json"

	"github.com/aymanbagabas/go-udiff"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Diff returns what a change changes, as a unified diff of documents in YAML, from
// the server's to the local one. JSON is shown with a member per line.
func Diff(c Change) (string, error) {
	before, after := "/dev/null", "/dev/null"
	var from, to string
	var err error
	if c.Old != nil {
		before = "server: " + c.Key
		if from, err = shown(c.Old); err != nil {
			return "", err
		}
	}
	if c.New != nil {
		after = c.New.Where
		o := &client.Object{Key: c.Key, Value: c.New.Bytes(), ContentType: c.New.Type(), Labels: c.New.Labels}
		if o.ContentType == "" && c.Old != nil {
			o.ContentType = c.Old.ContentType
		}
		if to, err = shown(o); err != nil {
			return "", err
		}
	}
	if from == to && c.Old != nil && c.New != nil {
		// They differ in nothing but the spaces of JSON.
		from, to = string(c.Old.Value)+"\n", string(c.New.Bytes())+"\n"
	}
	return udiff.Unified(before, after, from, to), nil
}

func shown(o *client.Object) (string, error) {
	if document.IsJSON(o.ContentType) {
		var b bytes.Buffer
		if json.Indent(&b, o.Value, "", "  ") == nil {
			pretty := *o
			pretty.Value = append(bytes.TrimSpace(b.Bytes()), '\n')
			o = &pretty
		}
	}
	d := document.Exact(o)
	text, err := d.YAML()
	return string(text), err
}
