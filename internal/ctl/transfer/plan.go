// Package transfer imports and exports many objects.
//
// [NewPlan] compares documents with a resource, [Diff] shows a change of a plan, and
// [Writer.Apply] makes the changes. [Export] writes the objects of a resource to a [Sink].
//
// Transfers keep no journal. An import, or an export to a directory, writes only what
// differs. So running an interrupted one again continues it, and running a complete one
// again does nothing.
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

// Action is the kind of a change.
type Action string

// The actions.
const (
	Create Action = "create"
	Update Action = "update"
	Delete Action = "delete"
)

// Change is a change of one object that makes the server match the documents.
type Change struct {
	Action Action
	Key    string
	// New is the wanted document; nil for a deletion.
	New *document.Located
	// Old is the object on the server; nil for a creation.
	Old *client.Object
}

// Plan is the difference between documents and a resource.
type Plan struct {
	// Changes are sorted by key.
	Changes []Change
	// Unchanged is the number of documents that the server matches already.
	Unchanged int
}

// Count returns the number of changes with an action.
func (p *Plan) Count(a Action) int {
	n := 0
	for _, c := range p.Changes {
		if c.Action == a {
			n++
		}
	}
	return n
}

// Deletions returns the deletions of objects, at their present revisions.
func Deletions(ctx context.Context, r *client.Resource, opts ...client.ListOption) ([]Change, error) {
	var changes []Change
	for o, err := range r.List(ctx, opts...) {
		if err != nil {
			return nil, err
		}
		// The value is not needed, and there may be many.
		changes = append(changes, Change{Action: Delete, Key: o.Key, Old: &client.Object{Key: o.Key, ModRevision: o.ModRevision}})
	}
	return changes, nil
}

// Scope selects the objects and documents to compare, and how.
type Scope struct {
	// Prefix ignores objects and documents that are not below this path.
	Prefix string
	// Prune deletes objects without a document.
	Prune bool
	// SkipHidden ignores objects and documents with hidden keys ([document.IsHidden]), so
	// that Prune does not delete the objects of skipped files.
	SkipHidden bool
	// DerivedLabels reports whether the resource derives labels from the values. Labels of documents
	// are then ignored. It is called only if labels differ. Nil: labels are stored.
	DerivedLabels func() bool
}

// contains reports whether a key is in the scope.
func (s Scope) contains(key string) bool {
	return (s.Prefix == "" || strings.HasPrefix(key, s.Prefix+"/")) && !(s.SkipHidden && document.IsHidden(key))
}

// maxGets is the maximum number of documents that are compared by one Get each. For more
// documents, the resource is listed.
const maxGets = 32

// ErrNoDocuments is returned if Prune is set and there are no documents, because the import
// would delete everything.
var ErrNoDocuments = errors.New("no documents found, and --prune would delete all objects")

// NewPlan compares documents with a resource. It reads all documents into memory first, so
// an unreadable document or a duplicate key fails before anything is written.
func NewPlan(ctx context.Context, r *client.Resource, documents iter.Seq2[document.Located, error], s Scope) (*Plan, error) {
	wanted, err := read(documents, s)
	if err != nil {
		return nil, err
	}
	if s.Prune && len(wanted) == 0 {
		return nil, ErrNoDocuments
	}
	p := &Plan{}
	if !s.Prune && len(wanted) <= maxGets {
		err = p.get(ctx, r.JSONValues(), wanted, s)
	} else {
		err = p.list(ctx, r.JSONValues(), wanted, s)
	}
	if err == nil {
		err = p.compareBinary(ctx, r)
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
		if !s.contains(d.Key) {
			continue
		}
		if first, ok := wanted[d.Key]; ok {
			return nil, fmt.Errorf("duplicate key %q: %s and %s", d.Key, first.Where, d.Where)
		}
		wanted[d.Key] = &d
	}
	return wanted, nil
}

// get compares each document with a Get.
func (p *Plan) get(ctx context.Context, r *client.Resource, wanted map[string]*document.Located, s Scope) error {
	found, err := getAll(ctx, r, slices.Collect(maps.Keys(wanted)))
	if err != nil {
		return err
	}
	for key, d := range wanted {
		p.compare(d, found[key], s)
	}
	return nil
}

// getAll returns the objects that exist, by key. It sends a few requests at once.
func getAll(ctx context.Context, r *client.Resource, keys []string) (map[string]*client.Object, error) {
	found := make([]*client.Object, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxGets)
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
		return nil, err
	}
	objects := map[string]*client.Object{}
	for i, key := range keys {
		if found[i] != nil {
			objects[key] = found[i]
		}
	}
	return objects, nil
}

// list compares the documents with a List of the resource.
func (p *Plan) list(ctx context.Context, r *client.Resource, wanted map[string]*document.Located, s Scope) error {
	missing := maps.Clone(wanted)
	for o, err := range r.List(ctx, s.options()...) {
		if err != nil {
			return err
		}
		if d, ok := missing[o.Key]; ok {
			delete(missing, o.Key)
			p.compare(d, o, s)
		} else if s.Prune && s.contains(o.Key) {
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
	if o != nil && !maps.Equal(d.Labels, o.Labels) && s.DerivedLabels != nil && s.DerivedLabels() {
		d.Labels = o.Labels
	}
	switch {
	case o == nil:
		p.Changes = append(p.Changes, Change{Action: Create, Key: d.Key, New: d})
	case d.Matches(o):
		p.Unchanged++
	default:
		p.Changes = append(p.Changes, Change{Action: Update, Key: d.Key, New: d, Old: o})
	}
}

// compareBinary compares documents again that are not JSON, although the server returned JSON:
// they may be messages in their binary form.
func (p *Plan) compareBinary(ctx context.Context, r *client.Resource) error {
	var keys []string
	for _, c := range p.Changes {
		if c.Action == Update && document.IsJSON(c.Old.ContentType) && !json.Valid(c.New.Bytes()) {
			keys = append(keys, c.Key)
		}
	}
	stored, err := getAll(ctx, r, keys)
	if err != nil {
		return err
	}
	compared := len(p.Changes)
	p.Changes = slices.DeleteFunc(p.Changes, func(c Change) bool {
		o, ok := stored[c.Key]
		return ok && c.New.Matches(o)
	})
	p.Unchanged += compared - len(p.Changes)
	return nil
}

// Diff returns a change as a unified diff of YAML documents, from the server to the local
// one. JSON is indented.
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
		// They differ only in the spaces of JSON.
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
	text, err := document.EncodeYAML(d)
	return string(text), err
}
