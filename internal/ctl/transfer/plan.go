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
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

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
	New *document.Document
	// Old is the object on the server; nil for a creation.
	Old *client.Object
	// Was names Old in a diff. Default: the server and the key.
	Was string
}

// Plan is the difference between documents and a resource.
type Plan struct {
	// Changes are sorted by key.
	Changes []Change
	// Unchanged is the number of documents that the server matches already.
	Unchanged int
	// Keys are the keys of all documents, in no order.
	Keys []string
	// Newest is the newest revision of the objects that the documents match; 0 if there is none.
	Newest int64
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

// NewPlan compares documents with a resource. It fails if two of them have the same key.
func NewPlan(ctx context.Context, r *client.Resource, documents []document.Document, s Scope) (*Plan, error) {
	wanted, err := s.index(documents)
	if err != nil {
		return nil, err
	}
	if s.Prune && len(wanted) == 0 {
		return nil, ErrNoDocuments
	}
	p := &Plan{Keys: slices.Collect(maps.Keys(wanted))}
	compare := func(o *client.Object) {
		if d, ok := wanted[o.Key]; ok {
			delete(wanted, o.Key)
			p.compare(d, o, s)
		} else if s.Prune && s.contains(o.Key) {
			p.Changes = append(p.Changes, Change{Action: Delete, Key: o.Key, Old: o})
		}
	}
	if !s.Prune && len(wanted) <= maxGets {
		found, err := getAll(ctx, r.JSONValues(), slices.Collect(maps.Keys(wanted)))
		if err != nil {
			return nil, err
		}
		for _, o := range found {
			compare(o)
		}
	} else {
		var opts []client.ListOption
		if s.Prefix != "" {
			opts = append(opts, client.Prefix(s.Prefix))
		}
		for o, err := range r.JSONValues().List(ctx, opts...) {
			if err != nil {
				return nil, err
			}
			compare(o)
		}
	}
	for key, d := range wanted { // those that remain do not exist
		p.Changes = append(p.Changes, Change{Action: Create, Key: key, New: d})
	}
	err = p.compareBinary(ctx, r)
	slices.SortFunc(p.Changes, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return p, err
}

// index returns the documents in the scope by their keys.
func (s Scope) index(documents []document.Document) (map[string]*document.Document, error) {
	wanted := map[string]*document.Document{}
	for _, d := range documents {
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

// getAll returns the objects that exist, by key. It sends a few requests at once.
func getAll(ctx context.Context, r *client.Resource, keys []string) (map[string]*client.Object, error) {
	var mu sync.Mutex // guards found
	found := map[string]*client.Object{}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(maxGets)
	for _, key := range keys {
		group.Go(func() error {
			o, err := r.Get(ctx, key)
			if errors.Is(err, client.ErrNotFound) {
				return nil
			}
			mu.Lock()
			defer mu.Unlock()
			found[key] = o
			return err
		})
	}
	return found, group.Wait()
}

func (p *Plan) compare(d *document.Document, o *client.Object, s Scope) {
	if !maps.Equal(d.Labels, o.Labels) && s.DerivedLabels != nil && s.DerivedLabels() {
		d.Labels = o.Labels
	}
	if d.Matches(o) {
		p.Unchanged++
		p.Newest = max(p.Newest, o.ModRevision)
	} else {
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
		if !ok || !c.New.Matches(o) {
			return false
		}
		p.Newest = max(p.Newest, o.ModRevision)
		return true
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
		before = cmp.Or(c.Was, "server: "+c.Key)
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
