package direct

import (
	"context"
	"fmt"
	"iter"
	"strings"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Position returns the position of the resource. It is at least as new as every write
// that was acknowledged before the call, and as the needed revision. Concurrent callers,
// including those of watches, share a request to the store.
//
// Errors: [*cacher.FutureError] if the needed revision does not exist yet,
// [object.ErrUnavailable] if the store does not answer in time, and ctx.Err() if ctx
// ended.
func (s *Source) Position(ctx context.Context, needed object.Revision) (object.Position, error) {
	p, err := s.position.Get(ctx)
	p.Epoch = s.servedEpoch(p.Epoch)
	if err == nil && needed > p.Revision {
		err = &cacher.FutureError{Asked: needed, Current: p.Revision}
	}
	return p, err
}

// Oldest returns the oldest revision from floor on that can still be read, or 0 if the
// store does not know it.
func (s *Source) Oldest(ctx context.Context, floor object.Revision) object.Revision {
	now, err := s.Position(ctx, 0)
	if err != nil {
		return 0
	}
	oldest, err := s.cfg.Store.Oldest(ctx, max(1, min(floor, now.Revision)), now.Revision)
	if err != nil {
		return 0
	}
	return oldest
}

// Objects returns the objects of the scope with keys from start on as they were at a
// revision, in ascending order of keys. It reads them page by page. An error ends the
// sequence; it wraps [object.ErrCompacted] if the store has forgotten the revision.
func (s *Source) Objects(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) iter.Seq2[*object.Object, error] {
	return func(yield func(*object.Object, error) bool) {
		for p := (page{at: at, scope: scope, start: start, more: true}); p.more; {
			if err := s.nextPage(ctx, &p); err != nil {
				yield(nil, err)
				return
			}
			for _, o := range p.objects {
				if !yield(o, nil) {
					return
				}
			}
		}
	}
}

// Count returns the number of objects that Objects would return, without reading them. It
// fails like Objects.
func (s *Source) Count(ctx context.Context, at object.Revision, scope object.Scope, start object.Key) (int64, error) {
	return s.cfg.Store.Count(ctx, at, scope, start)
}

// page is a page of the objects of a scope at a revision.
type page struct {
	at       object.Revision
	scope    object.Scope
	objects  []*object.Object
	start    object.Key // of the next page
	more     bool       // there is a next page
	forWatch bool       // the objects are sent to a watch
	lacksKey bool       // a page of a watch had a value whose key is missing
}

// nextPage reads the next page.
func (s *Source) nextPage(ctx context.Context, p *page) error {
	records, more, err := s.cfg.Store.List(ctx, p.at, p.scope, p.start, s.cfg.PageSize)
	if err != nil {
		return fmt.Errorf("list at revision %d: %w", p.at, err)
	}
	p.more, p.objects = more, make([]*object.Object, len(records))
	for i := range records {
		p.objects[i] = s.decode(&records[i])
		p.lacksKey = p.forWatch && s.missingKeys.Note(&records[i]) || p.lacksKey
		p.start = records[i].Key + "\x00"
	}
	return nil
}

// decode returns the object of a record.
func (s *Source) decode(r *object.Record) *object.Object {
	d, err := object.Build(s.cfg.Codec, r)
	if err != nil && s.opaqueLog.Note(s.log, r, err) {
		s.opaque.Add(1)
	}
	return s.cfg.Preencode(d)
}

// servedEpoch returns the epoch that readers see, for an epoch of the store. It is an epoch
// of its own if a missing key kept values from watches (see [cacher.MissingKeys]). Reads
// alone do not cause that: each one reads the store again, and a read of the past may need
// a key that is long gone.
func (s *Source) servedEpoch(ofStore object.Epoch) object.Epoch {
	s.missingKeys.RemoveArrived()
	return s.missingKeys.Epoch(ofStore)
}

// storeEpoch returns the epoch of the store for a served epoch.
func storeEpoch(served object.Epoch) object.Epoch {
	ofStore, _, _ := strings.Cut(string(served), "~")
	return object.Epoch(ofStore)
}
