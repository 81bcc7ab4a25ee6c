package cacher

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"

	"github.com/fanoutd/fanoutd/internal/object"
)

// maxPagesAhead limits the pages that are decoded at once, and thereby the memory of a fill: the
// store limits the size of a page. One goroutine reads the pages, so more would not help.
const maxPagesAhead = 4

// page is a page of a list with its objects.
type page struct {
	records []object.Record
	err     error // the end of the list; there are no records

	decoded  chan struct{} // closed once the fields below are set
	objects  []*object.Object
	failures []error // why the values do not decode, as many as there are objects; nil: all values decode
}

// decode sets the objects of the records.
func (p *page) decode(c *Cacher) {
	defer close(p.decoded)
	p.objects = make([]*object.Object, len(p.records))
	for i := range p.records {
		o, err := c.decode(&p.records[i])
		p.objects[i] = o
		if err != nil {
			if p.failures == nil {
				p.failures = make([]error, len(p.records))
			}
			p.failures[i] = err
		}
	}
}

// failure returns why the value of the object with this index does not decode, or nil.
func (p *page) failure(i int) error {
	if p.failures == nil {
		return nil
	}
	return p.failures[i]
}

// decodedPages returns the pages of the resource as of a revision, in order of keys. While the
// caller handles a page, it reads the next ones and decodes them in parallel. An error ends the
// sequence.
func (c *Cacher) decodedPages(ctx context.Context, at object.Revision) iter.Seq2[*page, error] {
	return func(yield func(*page, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		defer wg.Wait()
		defer cancel()
		pages := make(chan *page, min(maxPagesAhead, runtime.GOMAXPROCS(0)))
		wg.Go(func() {
			defer close(pages)
			for records, err := range c.scan(ctx, at) {
				p := &page{records: records, err: err, decoded: make(chan struct{})}
				wg.Go(func() { p.decode(c) })
				select {
				case pages <- p:
				case <-ctx.Done():
					return
				}
			}
		})
		for p := range pages {
			<-p.decoded
			if !yield(p, p.err) || p.err != nil {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err) // the reader may have given up before the last page
		}
	}
}

// scan returns all records of the resource as of a revision, page by page. An error ends the
// sequence.
func (c *Cacher) scan(ctx context.Context, at object.Revision) iter.Seq2[[]object.Record, error] {
	if s, ok := c.cfg.Store.(Scanner); ok {
		return s.Scan(ctx, at)
	}
	return c.pages(ctx, at, object.Scope{}, "")
}

// pages returns the records of the scope with keys from start on as of a revision, page by page.
// An error ends the sequence.
func (c *Cacher) pages(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[[]object.Record, error] {
	return func(yield func([]object.Record, error) bool) {
		for {
			records, more, err := c.cfg.Store.List(ctx, at, scope, start, c.cfg.PageSize)
			if err == nil && more && len(records) == 0 {
				err = fmt.Errorf("the store returned an empty page and says there is more after %q", start)
			}
			if err != nil {
				yield(nil, err)
				return
			}
			if !yield(records, nil) || !more {
				return
			}
			start = records[len(records)-1].Key + "\x00"
		}
	}
}

// inPages returns the records of pages.
func inPages(pages iter.Seq2[[]object.Record, error]) iter.Seq2[*object.Record, error] {
	return func(yield func(*object.Record, error) bool) {
		for records, err := range pages {
			if err != nil {
				yield(nil, err)
				return
			}
			for i := range records {
				if !yield(&records[i], nil) {
					return
				}
			}
		}
	}
}
