package transfer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// Copy says what to copy from one resource to another, which usually has another server.
type Copy struct {
	From, To *client.Resource
	// Key is the object to copy. If it is empty, the objects below Prefix are copied, and if that is empty, too, all.
	Key, Prefix string
	// Delete deletes the objects of the scope that exist only at the target.
	Delete bool
	// OverwriteOpaque replaces objects of the target whose values its server cannot decode.
	OverwriteOpaque bool
	// DerivedLabels is as in [Scope], for the target.
	DerivedLabels func() bool
	// SourceName and TargetName name the two servers in a diff.
	SourceName, TargetName string
}

// CopyPlan is the difference between the two resources of a [Copy].
type CopyPlan struct {
	Plan
	// Revision is the revision of the source.
	Revision int64
	// Source is the number of objects at the source.
	Source int
	// Skipped are the objects of the source that are not copied, in order of their keys. They stay as they are at the
	// target.
	Skipped []SkippedObject
	// Kept is the number of objects that exist only at the target and are not deleted.
	Kept int
}

// SkippedObject is an object that is not copied.
type SkippedObject struct {
	Key string
	// Why is the reason, in words.
	Why string
	// Loses says that the copy is incomplete without the object. It is false for objects with a time to live, which
	// belong to where they were written.
	Loses bool
}

// ErrNothingToCopy is returned if the source has no object in the scope.
var ErrNothingToCopy = errors.New("no objects to copy")

// TargetError is an error of the target, not of the source.
type TargetError struct{ error }

// Unwrap returns the error itself.
func (e TargetError) Unwrap() error { return e.error }

// NewPlan compares the objects of the source with those of the target. Neither is changed.
func (c Copy) NewPlan(ctx context.Context) (*CopyPlan, error) {
	plan := &CopyPlan{}
	documents, err := c.readSource(ctx, plan)
	if err != nil {
		return nil, err
	}
	if len(documents) == 0 && (plan.Source == 0 || c.Delete) {
		return nil, ErrNothingToCopy // with Delete, a mistyped path would delete everything
	}
	skipped := map[string]bool{}
	for _, s := range plan.Skipped {
		skipped[s.Key] = true
	}
	for o, err := range c.To.JSONValues().List(ctx, c.scope()...) {
		if err != nil {
			return nil, TargetError{fmt.Errorf("read the target: %w", err)}
		}
		switch d := documents[o.Key]; {
		case d != nil:
			delete(documents, o.Key)
			plan.compareCopy(d, o, Scope{DerivedLabels: c.DerivedLabels}, c.was(o.Key))
		case skipped[o.Key]:
		case o.HasTTL || !c.Delete:
			plan.Kept++
		default:
			plan.Changes = append(plan.Changes, Change{Action: Delete, Key: o.Key, Old: o, Was: c.was(o.Key)})
		}
	}
	for key, d := range documents { // those that remain do not exist at the target
		plan.Changes = append(plan.Changes, Change{Action: Create, Key: key, New: d})
	}
	if err := plan.compareBinary(ctx, c.To); err != nil {
		return nil, TargetError{fmt.Errorf("read the target: %w", err)}
	}
	slices.SortFunc(plan.Changes, func(a, b Change) int { return strings.Compare(a.Key, b.Key) })
	return plan, nil
}

// readSource returns the objects to copy by their keys, and notes the others in the plan.
func (c Copy) readSource(ctx context.Context, plan *CopyPlan) (map[string]*document.Document, error) {
	var at client.Position
	documents := map[string]*document.Document{}
	for o, err := range c.From.JSONValues().List(ctx, append(c.scope(), client.ListPosition(&at))...) {
		if err != nil {
			return nil, fmt.Errorf("read the source: %w", err)
		}
		plan.Source++
		switch {
		case o.HasTTL:
			plan.Skipped = append(plan.Skipped, SkippedObject{Key: o.Key, Why: "it has a time to live"})
		case o.Undecryptable():
			plan.Skipped = append(plan.Skipped, SkippedObject{o.Key, "the server of the source cannot decrypt it", true})
		case o.Opaque:
			plan.Skipped = append(plan.Skipped, SkippedObject{o.Key, "the server of the source cannot decode it", true})
		default:
			d := document.Exact(o)
			d.Where = c.SourceName + ": " + o.Key
			documents[o.Key] = &d
		}
	}
	plan.Revision = at.Revision
	return documents, nil
}

func (c Copy) scope() []client.ListOption {
	switch {
	case c.Key != "":
		return []client.ListOption{client.Key(c.Key)}
	case c.Prefix != "":
		return []client.ListOption{client.Prefix(c.Prefix)}
	}
	return nil
}

func (c Copy) was(key string) string { return c.TargetName + ": " + key }

// compareCopy compares an object of the source with that of the target. An object that would expire at the target is
// different, because the source's does not.
func (p *CopyPlan) compareCopy(d *document.Document, o *client.Object, s Scope, was string) {
	if !maps.Equal(d.Labels, o.Labels) && s.DerivedLabels != nil && s.DerivedLabels() {
		d.Labels = o.Labels
	}
	if d.Matches(o) && !o.HasTTL {
		p.Unchanged++
		return
	}
	p.Changes = append(p.Changes, Change{Action: Update, Key: d.Key, New: d, Old: o, Was: was})
}

// Write is a change of a transaction.
type Write struct {
	Op client.Op
	// Bytes is about how many bytes it writes in etcd, with the record in a history.
	Bytes int
}

// Writes returns the changes of the plan. Each requires that the object of the target is still the one of the plan.
func (c Copy) Writes(p *CopyPlan) []Write {
	writes := make([]Write, len(p.Changes))
	for i := range p.Changes {
		change := &p.Changes[i]
		var present int64
		if change.Old != nil {
			present = change.Old.ModRevision
		}
		writes[i].Bytes = 2*change.size() + 2*len(change.Key) + 384
		if change.Action == Delete {
			writes[i].Op = client.OpDelete(change.Key, client.IfRevision(present))
			continue
		}
		labels := len(change.New.Labels) == 0 || c.DerivedLabels == nil || !c.DerivedLabels()
		writes[i].Op = client.OpPut(change.Key, valueOf(change.New, labels), append(c.putOptions(), client.IfRevision(present))...)
	}
	return writes
}

func (c Copy) putOptions() []client.WriteOption {
	if c.OverwriteOpaque {
		return []client.WriteOption{client.OverwriteOpaque()}
	}
	return nil
}
