package server

import (
	"context"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
)

const (
	maxPageSize = 10_000

	// maxListBytes is the size of the objects in one response, unless one object
	// is larger: it leaves room below the 4 MiB that clients accept by default.
	maxListBytes = 3 << 20
)

// fanout implements FanoutService.
type fanout struct {
	resources resources
	drain     *drain
}

// Get implements FanoutService.
func (f *fanout) Get(ctx context.Context, req *fanoutv1.GetRequest) (encoded, error) {
	resource, err := f.resources.find(req.GetResource())
	if err != nil {
		return nil, err
	}
	var check checker
	if _, err := object.ParseKeyScope(req.GetKey()); err != nil {
		check.refuse("key", "%v", err)
	}
	consistency := check.consistency("consistency", req.GetConsistency())
	if err := check.err(); err != nil {
		return nil, err
	}
	state, err := resource.Cacher.Read(ctx, consistency)
	if err != nil {
		return nil, err
	}
	key := object.Key(req.GetKey())
	o := state.Get(key)
	if o == nil {
		return nil, &notFoundError{key: key, at: state.Revision()}
	}
	return joined([][]byte{wire.ObjectField(o)}, wire.AppendPosition(nil, state.Position())), nil
}

// List implements FanoutService.
func (f *fanout) List(ctx context.Context, req *fanoutv1.ListRequest) (encoded, error) {
	resource, err := f.resources.find(req.GetResource())
	if err != nil {
		return nil, err
	}
	var check checker
	query := query{
		Resource: resource.Name,
		Scope:    check.scope("scope", req.GetScope()),
		Selector: check.selector(req.GetLabelSelector(), req.GetFieldSelector(), resource.Fields),
		Start:    object.Key(req.GetStartKey()),
	}
	consistency := check.consistency("consistency", req.GetConsistency())
	pageSize := int(req.GetPageSize())
	if pageSize < 0 || pageSize > maxPageSize {
		check.refuse("page_size", "is %d, must be between 0 and %d", pageSize, maxPageSize)
	}
	page := firstPage(query)
	if token := req.GetPageToken(); token != "" {
		if page, err = parsePageToken(token, query); err != nil {
			check.refuse("page_token", "%v", err)
		}
		if consistency != (cacher.Consistency{}) {
			check.refuse("consistency", "must be left out with a page token, which has the revision of the first page")
		}
	}
	if err := check.err(); err != nil {
		return nil, err
	}
	var state *cacher.State
	if newest := page.at == (object.Position{}); newest {
		if state, err = resource.Cacher.Read(ctx, consistency); err == nil {
			page.at = state.Position()
		}
	} else {
		state, err = resource.reach(ctx, page.at)
	}
	if err != nil {
		return nil, err
	}
	objects, ok := state.ObjectsAt(page.at.Revision, query.Scope, page.next)
	if !ok || page.at.Epoch != state.Position().Epoch {
		renewed := page
		renewed.at = object.Position{}
		return nil, &pageExpiredError{at: page.at.Revision, oldest: state.Replayable(), token: renewed.token()}
	}

	var pieces [][]byte
	size, more := 0, false
	for o := range objects {
		if !query.Selector.Matches(o) {
			continue
		}
		field := wire.ObjectField(o)
		if len(pieces) > 0 && (size+len(field) > maxListBytes || len(pieces) == pageSize) {
			more = true
			break
		}
		pieces = append(pieces, field)
		size += len(field)
		page.next = o.Key + "\x00"
	}
	next := ""
	if more {
		next = page.token()
	}
	return joined(pieces, wire.AppendListEnd(nil, page.at, next)), nil
}
