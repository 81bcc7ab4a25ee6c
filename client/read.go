package client

import (
	"context"
	"fmt"
	"iter"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Get returns the object with the key. It fails with [ErrNotFound] if there is none.
func (r *Resource) Get(ctx context.Context, key string, opts ...ReadOption) (*Object, error) {
	req := &fanoutv1.GetRequest{Resource: r.name, Key: key}
	for _, o := range opts {
		o.get(req)
	}
	if err := invalid(req); err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	resp, err := r.client.reads.Get(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, errorOf(err))
	}
	return objectOf(resp.GetObject()), nil
}

// Page is a part of a list.
type Page struct {
	// Objects are in order of their keys.
	Objects []*Object
	// Position is that of the whole list: all pages show the same state.
	Position Position
	// Next is what to give to [PageToken] for the next page; empty on the last one.
	Next string
	// Remaining is how many objects come after this page; nil where that is not
	// known.
	Remaining *int64
}

// ListPage returns one page of a list; [Resource.List] returns all of them.
func (r *Resource) ListPage(ctx context.Context, opts ...ListOption) (*Page, error) {
	l := r.listing(opts)
	page, err := l.page(ctx, r.client)
	if err == nil && l.position != nil {
		*l.position = page.Position
	}
	return page, err
}

// List returns objects in order of their keys, all of them as they were at one
// revision. They are fetched in pages while the caller iterates. An error is the
// last thing that is returned: [ErrPageTokenExpired] if the servers have forgotten
// the revision before the last page was asked for.
func (r *Resource) List(ctx context.Context, opts ...ListOption) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		l := r.listing(opts)
		for first := true; ; first = false {
			page, err := l.page(ctx, r.client)
			if err != nil {
				yield(nil, err)
				return
			}
			if first && l.position != nil {
				*l.position = page.Position
			}
			for _, o := range page.Objects {
				if !yield(o, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			// The token says how fresh the list is.
			l.req.PageToken, l.req.Consistency = page.Next, nil
		}
	}
}

func (r *Resource) listing(opts []ListOption) *listing {
	l := &listing{req: &fanoutv1.ListRequest{Resource: r.name}}
	for _, o := range opts {
		o.list(l)
	}
	return l
}

func (l *listing) page(ctx context.Context, c *Client) (*Page, error) {
	if err := invalid(l.req); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	resp, err := c.reads.List(ctx, l.req)
	if err != nil {
		return nil, fmt.Errorf("list: %w", errorOf(err))
	}
	page := &Page{
		Objects: make([]*Object, 0, len(resp.GetObjects())), Position: positionOf(resp.GetPosition()),
		Next: resp.GetNextPageToken(), Remaining: resp.RemainingCount,
	}
	for _, o := range resp.GetObjects() {
		page.Objects = append(page.Objects, objectOf(o))
	}
	return page, nil
}
