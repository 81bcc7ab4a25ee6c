package server

import (
	"context"
	"fmt"

	"google.golang.org/genproto/googleapis/rpc/errdetails"

	"github.com/fanoutd/fanoutd/internal/access"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/validation"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// checks checks the operations of one write against the validation rules of its resource. A nil checks has no
// rules to check.
//
// A rule may read the object that an operation replaces. Then the operation has [object.Op.Seen], and the store
// applies it only to this object. docs/dev/validation.md explains why no other one can be replaced.
type checks struct {
	resource *backend.Resource
	budget   *validation.Budget
	fields   func(i int) string // of an operation in the request
	ops      []object.Op
	of       []checkedOp // for each operation
}

// checkedOp is what is known of one operation.
type checkedOp struct {
	checks *validation.Checks // nil: there are none for this operation
	write  validation.Write

	known  bool // write has the object that the operation replaces, as the mod revision in Seen names it
	passed bool // the checks have been made with this object
}

// newChecks returns the checks of a write, or nil if there are none.
func newChecks(ctx context.Context, resource *backend.Resource, ops []object.Op, fields func(i int) string) (*checks, error) {
	set := resource.Validation.Set()
	caller := access.From(ctx)
	identity := validation.Identity{Name: caller.Name, Groups: caller.Groups, Method: string(caller.Method)}
	c := &checks{resource: resource, budget: validation.NewBudget(len(ops)), ops: ops, of: make([]checkedOp, len(ops)), fields: fields}
	applies := false
	for i := range ops {
		op, of := &ops[i], &c.of[i]
		found := set.For(op.Key)
		if found == nil || op.Kind == object.OpCheck || op.Kind == object.OpDelete && !found.ApplyToDeletes() {
			continue
		}
		applies = true
		of.checks, of.write = found, validation.Write{Key: op.Key, Identity: identity}
		if op.Kind == object.OpPut {
			d, err := object.Build(resource.Codec, &object.Record{Key: op.Key, Value: op.Value})
			if err != nil {
				return nil, fmt.Errorf("decode the new value: %w", err) // the codec has just encoded it
			}
			if of.write.New = c.objectOf(d); of.write.New == nil {
				return nil, c.refusal(i, validation.Violations{{Message: "cannot be checked, because it has no JSON form that keeps all of it: remove the fields that its message type does not have"}})
			}
		}
		switch {
		case op.Kind == object.OpPut && !found.ReadOld(), op.If != nil && *op.If == 0:
			of.known = true // it is not read, or there is none
		case op.Seen == nil:
			op.Seen, op.ReplaceOpaque = &object.Seen{ModRevision: object.Unseen}, true
		}
	}
	if !applies {
		return nil, nil
	}
	return c, nil
}

// objectOf returns an object as rules see it, or nil if they cannot. The value of a message is its JSON form.
func (c *checks) objectOf(d object.Decoded) *validation.Object {
	if d.Opaque {
		return nil
	}
	if t := object.JSONForm(c.resource.Codec); t != nil {
		var ok bool
		if d, ok = t.InJSON(d); !ok {
			return nil
		}
	}
	return &validation.Object{Value: d.Value, ContentType: d.ContentType, Labels: d.Labels}
}

// reads reports whether the checks of an operation read the object that it replaces.
func (c *checks) reads(i int) bool {
	return c != nil && c.of[i].checks != nil && c.ops[i].Seen != nil && (c.ops[i].Kind == object.OpDelete || c.of[i].checks.ReadOld())
}

// sees notes the object that an operation will replace, nil for none. Its mod revision is in Seen.
func (c *checks) sees(i int, d *object.Decoded) {
	if c == nil {
		return
	}
	of := &c.of[i]
	of.known, of.passed, of.write.Old, of.write.OldHidden = true, false, nil, false
	if d != nil {
		of.write.Old = c.objectOf(*d)
		// With overwrite_opaque, the caller has said that an opaque object is not worth keeping.
		of.write.OldHidden = of.write.Old == nil && !(d.Opaque && c.ops[i].Kind == object.OpPut)
	}
}

// forgets notes that the object that an operation will replace is not known.
func (c *checks) forgets(i int) {
	if c != nil {
		c.of[i].known, c.of[i].passed, c.of[i].write.Old, c.of[i].write.OldHidden = false, false, nil, false
	}
}

// run returns an error if the rules refuse an operation. It leaves out operations that cannot be applied with
// what is known, because the store refuses them, and reports which object is there.
func (c *checks) run(ctx context.Context) (err error) {
	if c == nil {
		return nil
	}
	c.budget.Spend(ctx, func() {
		for i := 0; i < len(c.of) && err == nil; i++ {
			err = c.check(i)
		}
	})
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func (c *checks) check(i int) error {
	of, op := &c.of[i], &c.ops[i]
	switch {
	case of.checks == nil, of.passed, !of.known:
		return nil
	case c.reads(i) && op.If != nil && *op.If != op.Seen.ModRevision:
		return nil
	case op.Kind == object.OpDelete && (op.Seen == nil || op.Seen.ModRevision == 0):
		return nil // it removes nothing
	}
	if found := of.checks.Check(c.budget, &of.write); len(found) > 0 {
		return c.refusal(i, found)
	}
	of.passed = true
	return nil
}

// maxReportBytes limits the key and the violations of a refusal. They are sent in the trailer of the response, in
// base64, beside a message that repeats some of them; many clients accept only 8 KiB there.
const maxReportBytes = 3600

// refusal returns the error for an operation that the rules refuse. It has as many violations as fit.
func (c *checks) refusal(i int, found validation.Violations) error {
	c.resource.Validation.CountRefused()
	e := &apierr.ValueRefusedError{Key: c.ops[i].Key}
	left := maxReportBytes - len(e.Key)
	for n, v := range found {
		one := &errdetails.BadRequest_FieldViolation{Field: c.fields(i) + v.Pointer, Description: v.Message}
		if left -= len(one.Field) + len(one.Description) + 10; left < 0 && n > 0 {
			break
		}
		e.Violations = append(e.Violations, one)
	}
	return e
}

// decoded returns what an object of the cache was encoded from, or nil.
func decoded(o *object.Object) *object.Decoded {
	if o == nil {
		return nil
	}
	return new(wire.Decode(o))
}
