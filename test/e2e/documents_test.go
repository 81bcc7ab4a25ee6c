package e2e

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"

	"github.com/fanoutd/fanoutd/internal/object"
)

// The written values, and the labels and fields for selectors: labels are in the
// envelope, and fields in values that are JSON documents.
var (
	tiers  = []string{"0", "1", "2"}
	owners = []string{"ann", "bob", "cid"}
	phases = []string{"", "new", "old"}
)

const contentJSON = "application/json"

// document is the JSON value of an object.
type document struct {
	Spec  spec   `json:"spec"`
	Phase string `json:"phase,omitempty"`
	By    string `json:"by"`
	N     int    `json:"n"`
}

type spec struct {
	Owner string `json:"owner"`
}

// randomDocument returns a document that contains its writer and the number of the
// write, so that no two documents are equal.
func randomDocument(rng *rand.Rand, by string, n int) (string, error) {
	text, err := json.Marshal(document{Spec: spec{Owner: pick(rng, owners)}, Phase: pick(rng, phases), By: by, N: n})
	return string(text), err
}

// randomLabels usually returns labels, and sometimes none.
func randomLabels(rng *rand.Rand, by string) map[string]string {
	if rng.IntN(4) == 0 {
		return nil
	}
	return map[string]string{"writer": by, "tier": pick(rng, tiers)}
}

func pick[T any](rng *rand.Rand, from []T) T { return from[rng.IntN(len(from))] }

// The declared fields, in the order of check.Truth.
const (
	ownerField = iota
	phaseField
	declaredFields
)

// fieldsConfig declares them.
const fieldsConfig = `
    fields:
      - {name: owner, path: spec.owner, indexed: true}
      - {name: phase, path: phase}
`

// readFields sets the fields of an object in the truth.
func readFields(o *object.Decoded) {
	o.Fields = make([]string, declaredFields)
	var d document
	if o.ContentType == contentJSON && json.Unmarshal(o.Value, &d) == nil {
		o.Fields[ownerField], o.Fields[phaseField] = d.Spec.Owner, d.Phase
	}
}

// selection picks objects. It has the selectors of the protocol and, written
// independently, a function with the same meaning.
type selection struct {
	labels, fields string
	picks          func(*object.Decoded) bool
}

func (s selection) String() string {
	switch {
	case s.fields == "":
		return s.labels
	case s.labels == "":
		return s.fields
	}
	return fmt.Sprintf("%s and %s", s.labels, s.fields)
}

var selections = []selection{
	{labels: "tier=1", picks: func(o *object.Decoded) bool { return o.Labels["tier"] == "1" }},
	{labels: "tier in (0, 2)", picks: func(o *object.Decoded) bool { return o.Labels["tier"] == "0" || o.Labels["tier"] == "2" }},
	{labels: "tier!=1", picks: func(o *object.Decoded) bool { return o.Labels["tier"] != "1" }},
	{labels: "!tier", picks: func(o *object.Decoded) bool { _, has := o.Labels["tier"]; return !has }},
	{labels: "tier,writer notin (writer-0, etcd-writer-1)", picks: func(o *object.Decoded) bool {
		_, has := o.Labels["tier"]
		return has && o.Labels["writer"] != "writer-0" && o.Labels["writer"] != "etcd-writer-1"
	}},
	{fields: "owner=ann", picks: func(o *object.Decoded) bool { return o.Fields[ownerField] == "ann" }},
	{fields: "owner=bob", picks: func(o *object.Decoded) bool { return o.Fields[ownerField] == "bob" }},
	{fields: "owner!=ann,phase!=old", picks: func(o *object.Decoded) bool {
		return o.Fields[ownerField] != "ann" && o.Fields[phaseField] != "old"
	}},
	{fields: "phase=", picks: func(o *object.Decoded) bool { return o.Fields[phaseField] == "" }},
	{fields: "name=key-1", picks: func(o *object.Decoded) bool { return o.Key.Name() == "key-1" }},
	{fields: "key=team-1/svc-1/key-1", picks: func(o *object.Decoded) bool { return o.Key == "team-1/svc-1/key-1" }},
	{labels: "tier=1", fields: "owner=bob", picks: func(o *object.Decoded) bool {
		return o.Labels["tier"] == "1" && o.Fields[ownerField] == "bob"
	}},
	{labels: "tier=never", picks: func(o *object.Decoded) bool { return false }},
}
