package transfer

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/ctl/document"
)

// concurrentChecks is how many documents are checked at the same time.
const concurrentChecks = 16

// Validate asks the server whether it would store the documents, and returns the error for each, or nil. It ends
// with an error that is not about a document. With asNew, rules do not see the objects that are stored.
func (s Scope) Validate(ctx context.Context, r *client.Resource, documents []document.Document, asNew bool) ([]error, error) {
	var opts []client.WriteOption
	if asNew {
		opts = append(opts, client.IfAbsent())
	}
	return refusals(ctx, len(documents), func(ctx context.Context, i int) error {
		return s.validate(ctx, r, &documents[i], opts...)
	})
}

func (s Scope) validate(ctx context.Context, r *client.Resource, d *document.Document, opts ...client.WriteOption) error {
	err := r.Validate(ctx, d.Key, valueOf(d, true), opts...)
	if RefusesField(err, "labels") && s.DerivedLabels != nil && s.DerivedLabels() {
		err = r.Validate(ctx, d.Key, valueOf(d, false), opts...)
	}
	return err
}

// Validate asks the server of the target whether it would make the changes of the plan, and returns the error for each,
// or nil. It ends with an error that is not about a change.
func (c Copy) Validate(ctx context.Context, p *CopyPlan) ([]error, error) {
	return Scope{DerivedLabels: c.DerivedLabels}.ValidateChanges(ctx, c.To, p.Changes, c.putOptions()...)
}

// ValidateChanges asks the server whether it would make changes, and returns the error for each, or nil. It ends with an
// error that is not about a change. The options are those of the writes.
func (s Scope) ValidateChanges(ctx context.Context, r *client.Resource, changes []Change, opts ...client.WriteOption) ([]error, error) {
	return refusals(ctx, len(changes), func(ctx context.Context, i int) error {
		if c := &changes[i]; c.Action != Delete {
			return s.validate(ctx, r, c.New, opts...)
		}
		return r.ValidateDelete(ctx, changes[i].Key)
	})
}

// refusals calls check for several things at a time, and returns the errors by which the server refuses them. It ends
// with any other error.
func refusals(ctx context.Context, n int, check func(ctx context.Context, i int) error) ([]error, error) {
	refused := make([]error, n)
	checking, ctx := errgroup.WithContext(ctx)
	checking.SetLimit(concurrentChecks)
	for i := range n {
		checking.Go(func() error {
			err := check(ctx, i)
			if errors.Is(err, client.ErrValueRefused) || errors.Is(err, client.ErrInvalidRequest) {
				refused[i], err = err, nil
			}
			return err
		})
	}
	return refused, checking.Wait()
}
