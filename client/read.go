package client

import (
	"context"
	"fmt"
	"iter"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Get returns the object with the key. It fails with [ErrNotFound] if there is none.
func (r *Resource) Get(ctx context.Context, key string, opts ...ReadOption) (*Object, error) {
	req := &fanoutv1.GetRequest{Resource: r.name, Key: key, JsonValues: r.jsonValues}
	for _, o := range opts {
		o.get(req)
	}
	if err := checkUTF8(req); err != nil {
		return nil, fmt.Errorf("get %q: %w", key, err)
	}
	resp, err := r.client.reads.Get(ctx, req)
	if err != nil {
		return nil, fmt.Errorf("get %q: %w", key, errorOf(err))
	}
	o := objectOf(resp.GetObject())
	if o != nil {
		o.TTL = resp.GetTtl().AsDuration()
		o.LastChange = changeOf(resp.GetLastChange())
	}
	return o, nil
}

// Page is a part of a list.
type Page struct {
	// Objects are in order of their keys.
	Objects []*Object
	// Position is the position of the list; it is the same on all pages.
	Position Position
	// Next is the [PageToken] of the next page; it is empty on the last page.
	Next string
	// Remaining is the number of objects after this page; nil if the server does not
	// know it.
	Remaining *int64
}

// ListPage returns one page of a list; [Resource.List] returns all of them.
func (r *Resource) ListPage(ctx context.Context, opts ...ListOption) (*Page, error) {
	c := r.listConfig(opts)
	page, err := c.page(ctx, r.client)
	if err == nil && c.position != nil {
		*c.position = page.Position
	}
	return page, err
}

// Count returns the number of objects that List would return, without fetching them. The
// options are those of List, except [PageSize] and [PageToken].
func (r *Resource) Count(ctx context.Context, opts ...ListOption) (int64, error) {
	c := r.listConfig(opts)
	c.req.CountOnly = true
	page, err := c.page(ctx, r.client)
	if err != nil {
		return 0, err
	}
	if c.position != nil {
		*c.position = page.Position
	}
	return *page.Remaining, nil
}

// List returns objects in order of their keys, all as they were at one revision. It
// fetches them in pages while the caller iterates. An error is the last value of the
// iteration; it is [ErrPageTokenExpired] if the servers forget the revision before
// the caller reaches the last page.
func (r *Resource) List(ctx context.Context, opts ...ListOption) iter.Seq2[*Object, error] {
	return func(yield func(*Object, error) bool) {
		c := r.listConfig(opts)
		for first := true; ; first = false {
			page, err := c.page(ctx, r.client)
			if err != nil {
				yield(nil, err)
				return
			}
			if first && c.position != nil {
				*c.position = page.Position
			}
			for _, o := range page.Objects {
				if !yield(o, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			// The token names the revision of the list.
			c.req.PageToken, c.req.Consistency = page.Next, nil
		}
	}
}

func (r *Resource) listConfig(opts []ListOption) *listConfig {
	c := &listConfig{req: &fanoutv1.ListRequest{Resource: r.name, JsonValues: r.jsonValues}}
	for _, o := range opts {
		o.list(c)
	}
	return c
}

func (c *listConfig) page(ctx context.Context, from *Client) (*Page, error) {
	if err := checkUTF8(c.req); err != nil {
		return nil, fmt.Errorf("list: %w", err)
	}
	resp, err := from.reads.List(ctx, c.req)
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
