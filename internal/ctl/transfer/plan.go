// Package transfer brings many objects into a resource, out of it, or shows what is
// different.
//
// There is no journal of what was done. An import compares what it reads with what
// the server has and writes only what differs; so an import that was interrupted is
// continued by doing it again, and one that is done again does nothing. It is the
// same for an export to a directory.
package transfer

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"
	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Action is what is done to an object.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is what has to be done to one object for the server to have what the
// documents say.
type Change struct {
	Action Action
	Key    string
	// New is the document; nil for a deletion.
	New *document.Located
	// Old is the object that the server has; nil for a creation.
	Old *client.Object
}

// Plan is the difference between documents and a resource.
type Plan struct {
	// Changes are in order of keys.
	Changes []Change
	// Unchanged is how many documents say what the server has.
	Unchanged int
}

// Count returns how many changes there are of an action.
func (p *Plan) Count(a Action) int {
	n := 0
	for _, c := range p.Changes {
		if c.Action == a {
			n++
		}
	}
	return n
}

// Scope says what of a resource is compared.
type Scope struct {
	// Prefix leaves out objects and documents that are not below this path.
	Prefix string
	// Prune has objects deleted that no document speaks of.
	Prune bool
	// Visible leaves out objects and documents whose keys are hidden
	// ([document.IsHidden]), so that none is deleted whose file was left out.
	Visible bool
	// Derived: the resource takes labels from values, so what documents say of them
	// is no difference.
	Derived bool
}

func (s Scope) has(key string) bool {
	return (s.Prefix == "" || strings.HasPrefix(key, s.Prefix+"/")) && !(s.Visible && document.IsHidden(key))
}

// few is up to how many documents are compared one by one; for more, the objects
// are listed.
const few = 32

// ErrNothing is the error for documents of which there are none, where everything
// would be deleted.
var ErrNothing = errors.New("there are no documents, so everything would be deleted")

// NewPlan compares documents with a resource. All documents are read before anything
// else is done, and held in memory: if there is one that cannot be read, or two of
// one key, nothing has happened.
func NewPlan(ctx context.Context, r *client.Resource, documents iter.Seq2[document.Located, error], s Scope) (*Plan, error) {
	wanted, err := read(documents, s)
	if err != nil {
		return nil, err
	}
	if s.Prune && len(wanted) == 0 {
		return nil, ErrNothing
	}
	p := &Plan{}
	if !s.Prune && len(wanted) <= few {
		err = p.get(ctx, r, wanted, s)
	} else {
		err = p.list(ctx, r, wanted, s)
	}
	slices.SortFunc(p.Changes, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return p, err
}

func read(documents iter.Seq2[document.Located, error], s Scope) (map[string]*document.Located, error) {
	wanted := map[string]*document.Located{}
	for d, err := range documents {
		if err != nil {
			return nil, err
		}
		if !s.has(d.Key) {
			continue
		}
		if first, ok := wanted[d.Key]; ok {
			return nil, fmt.Errorf("%q is there twice: %s and %s", d.Key, first.Where, d.Where)
		}
		wanted[d.Key] = &d
	}
	return wanted, nil
}

// get asks for each object.
func (p *Plan) get(ctx context.Context, r *client.Resource, wanted map[string]*document.Located, s Scope) error {
	found := make([]*client.Object, len(wanted))
	keys := slices.Sorted(maps.Keys(wanted))
	group, ctx := errgroup.WithContext(ctx)
	for i, key := range keys {
		group.Go(func() error {
			o, err := r.Get(ctx, key)
			if errors.Is(err, client.ErrNotFound) {
				return nil
			}
			found[i] = o
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	for i, key := range keys {
		p.compare(wanted[key], found[i], s)
	}
	return nil
}

// list asks for all objects.
func (p *Plan) list(ctx context.Context, r *client.Resource, wanted map[string]*document.Located, s Scope) error {
	missing := maps.Clone(wanted)
	for o, err := range r.List(ctx, s.options()...) {
		if err != nil {
			return err
		}
		if d, ok := missing[o.Key]; ok {
			delete(missing, o.Key)
			p.compare(d, o, s)
		} else if s.Prune && s.has(o.Key) {
			p.Changes = append(p.Changes, Change{Action: Delete, Key: o.Key, Old: o})
		}
	}
	for _, d := range missing {
		p.compare(d, nil, s)
	}
	return nil
}

func (s Scope) options() []client.ListOption {
	if s.Prefix == "" {
		return nil
	}
	return []client.ListOption{client.Prefix(s.Prefix)}
}

func (p *Plan) compare(d *document.Located, o *client.Object, s Scope) {
	if o != nil && s.Derived {
		d.Labels = o.Labels
	}
	switch {
	case o == nil:
		p.Changes = append(p.Changes, Change{Action: Create, Key: d.Key, New: d})
	case d.Same(o):
		p.Unchanged++
	default:
		p.Changes = append(p.Changes, Change{Action: Update, Key: d.Key, New: d, Old: o})
	}
}

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
