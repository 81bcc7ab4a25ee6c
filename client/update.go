package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Update reads an object, has change say what it should become, and writes that
// unless somebody else has written meanwhile: then it begins anew, until it
// succeeds or ctx ends. So change may be called several times and should do nothing
// but compute.
//
// Old is nil where there is no object. A nil value leaves everything as it is; an
// error ends the update and is returned. The result is the revision of the write,
// or if there was none the ModRevision of the object.
func (r *Resource) Update(ctx context.Context, key string, change func(old *Object) (*Value, error), opts ...WriteOption) (revision int64, err error) {
	wait := retry{first: 5 * time.Millisecond, most: time.Second}
	for {
		old, err := r.Get(ctx, key)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return 0, fmt.Errorf("update: %w", err)
		}
		var at int64
		if old != nil {
			at = old.ModRevision
		}
		v, err := change(old)
		if err != nil {
			return 0, fmt.Errorf("update %q: %w", key, err)
		}
		if v == nil {
			return at, nil
		}
		revision, err := r.Put(ctx, key, *v, append(opts[:len(opts):len(opts)], IfRevision(at))...)
		if err == nil {
			return revision, nil
		}
		if !errors.Is(err, ErrPreconditionFailed) {
			return 0, fmt.Errorf("update: %w", err)
		}
		if sleep(ctx, wait.next()) != nil {
			return 0, fmt.Errorf("update: %w: %w", context.Cause(ctx), err)
		}
	}
}
