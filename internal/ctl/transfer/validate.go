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
	refusals := make([]error, len(documents))
	checking, ctx := errgroup.WithContext(ctx)
	checking.SetLimit(concurrentChecks)
	var opts []client.WriteOption
	if asNew {
		opts = append(opts, client.IfAbsent())
	}
	for i := range documents {
		d := &documents[i]
		checking.Go(func() error {
			err := r.Validate(ctx, d.Key, valueOf(d, true), opts...)
			if RefusesField(err, "labels") && s.DerivedLabels != nil && s.DerivedLabels() {
				err = r.Validate(ctx, d.Key, valueOf(d, false), opts...)
			}
			if errors.Is(err, client.ErrValueRefused) || errors.Is(err, client.ErrInvalidRequest) {
				refusals[i], err = err, nil
			}
			return err
		})
	}
	return refusals, checking.Wait()
}
