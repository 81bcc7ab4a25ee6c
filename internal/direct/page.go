package direct

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// firstPage is the number of records of a first page: the store counts records and
// not bytes, and they may be a few bytes each, or a MiB.
const firstPage = 32

// page is a place in the objects of a scope at a revision.
type page struct {
	at      object.Revision
	scope   object.Scope
	objects []*object.Object
	start   object.Key // where the next page begins
	more    bool       // there is one
	size    int        // the number of records to read next; 0: not known yet
	watched bool       // it is told to a watcher
	locked  bool       // values are missing in it, for want of a key
}

// next turns the page.
func (s *Source) next(ctx context.Context, p *page) error {
	if p.size == 0 {
		p.size = firstPage
	}
	p.size = min(p.size, s.cfg.PageSize)
	records, more, err := s.cfg.Store.ListScope(ctx, p.at, p.scope, p.start, p.size)
	if err != nil {
		return fmt.Errorf("list at revision %d: %w", p.at, err)
	}
	p.more, p.objects = more, make([]*object.Object, len(records))
	bytes := 1
	for i := range records {
		p.objects[i] = s.build(&records[i])
		p.locked = p.watched && s.missing.Note(&records[i]) || p.locked
		p.start = records[i].Key + "\x00"
		bytes += len(records[i].Value)
	}
	// As many as would fit if the next were like these, but not many more at a time.
	p.size = max(1, min(2*p.size, s.cfg.PageBytes*len(records)/bytes))
	return nil
}
