package server

import (
	"context"
	"errors"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/server/request"
	"github.com/fanoutd/fanoutd/internal/wire"
	"google.golang.org/grpc/mem"
)

// viewOf returns the resource at the position of the list, which the first page
// decides.
func viewOf(ctx context.Context, p request.Page, s backend.Source, asked request.Consistency) (backend.View, error) {
	if p.Position == (object.Position{}) {
		return s.View(ctx, asked)
	}
	return s.ViewAt(ctx, p.Position)
}

// readPage returns the page, of at most limit objects, 0 meaning as many as fit.
func readPage(ctx context.Context, p request.Page, v backend.View, limit int) (grpcmsg.Encoded, error) {
	next := request.Page{Query: p.Query, Position: v.Position(), Next: p.Next, Count: -1}
	pieces := make([]mem.SliceBuffer, 0, max(0, min(limit, p.Count)))
	var last object.Key
	size, more := 0, false
	for o, err := range v.Objects(ctx, p.Query.Scope, p.Next) {
		if err != nil {
			return nil, pageError(p, err)
		}
		if !p.Query.Selector.Matches(o) {
			continue
		}
		field := wire.ObjectField(o)
		if more = len(pieces) > 0 && (size+len(field) > maxListBytes || len(pieces) == limit); more {
			break
		}
		pieces = append(pieces, field)
		size += len(field)
		last = o.Key
	}
	if len(pieces) > 0 {
		next.Next = last + "\x00"
	}
	// Objects are counted once, by the first page; the tokens remember it. What
	// has to be fetched or matched is not worth it.
	switch counts := p.Query.Selector.String() == "" && v.InMemory(); {
	case counts && p.Count >= 0:
		next.Count = p.Count - len(pieces)
	case counts && more:
		next.Count = v.Count(p.Query.Scope, next.Next)
	case counts:
		next.Count = 0
	}
	token := ""
	if more {
		token = next.Token()
	}
	return grpcmsg.Chain(pieces, wire.AppendListEnd(nil, v.Position(), token, next.Count)), nil
}

// pageError completes an error with what lets the list go on.
func pageError(p request.Page, err error) error {
	if expired, ok := errors.AsType[*apierr.ExpiredError](err); ok && p.Position != (object.Position{}) {
		renewed := p
		renewed.Position, renewed.Count = object.Position{}, -1
		return &apierr.PageExpiredError{ExpiredError: expired, Token: renewed.Token()}
	}
	return err
}
