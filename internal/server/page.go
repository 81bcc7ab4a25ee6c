package server

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"

	"google.golang.org/grpc/mem"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/grpcmsg"
	"github.com/fanoutd/fanoutd/internal/wire"
)

// query is what a list asks for; all its pages ask for the same.
type query struct {
	Resource string
	Scope    object.Scope
	Selector selector.Selector
	Start    object.Key
}

// page is a place in a list.
type page struct {
	query query
	at    object.Position // of the list; zero: not decided yet
	next  object.Key      // the page begins here
	count int             // objects from there on; negative: not known
}

func firstPage(q query) page { return page{query: q, next: q.Start, count: -1} }

// pageToken is the content of a page token. It holds what was asked, so that it
// can be refused on another request, and nothing that is secret.
type pageToken struct {
	Resource string          `json:"r"`
	Scope    string          `json:"s"`
	Selector string          `json:"l,omitempty"`
	Start    object.Key      `json:"b,omitempty"`
	Next     object.Key      `json:"n"`
	Epoch    object.Epoch    `json:"e,omitempty"`
	Revision object.Revision `json:"v,omitempty"`
	Count    int             `json:"c,omitempty"` // negative or 0: not known
}

func (p page) token() string {
	b, err := json.Marshal(pageToken{p.query.Resource, p.query.Scope.String(), p.query.Selector.String(), p.query.Start, p.next, p.at.Epoch, p.at.Revision, p.count})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

var (
	errNoPageToken      = errors.New("is not a page token of this service")
	errForeignPageToken = errors.New("belongs to a request with another resource, scope, selector or start_key")
)

// parsePageToken returns the place that a token stands for.
func parsePageToken(token string, q query) (page, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return page{}, errNoPageToken
	}
	var t pageToken
	if err := json.Unmarshal(b, &t); err != nil || t.Revision < 0 || t.Resource == "" {
		return page{}, errNoPageToken
	}
	if (t.Epoch == "") != (t.Revision == 0) {
		return page{}, errNoPageToken // half a position; etcd takes revision 0 for the newest
	}
	if t.Resource != q.Resource || t.Scope != q.Scope.String() || t.Selector != q.Selector.String() || t.Start != q.Start {
		return page{}, errForeignPageToken
	}
	p := page{query: q, at: object.Position{Epoch: t.Epoch, Revision: t.Revision}, next: max(t.Next, q.Start), count: t.Count}
	if p.count <= 0 {
		p.count = -1
	}
	return p, nil
}

// view returns the resource at the position of the list, which the first page
// decides.
func (p page) view(ctx context.Context, s source, asked consistency) (view, error) {
	if p.at == (object.Position{}) {
		return s.view(ctx, asked)
	}
	return s.viewAt(ctx, p.at)
}

// read returns the page, of at most limit objects, 0 meaning as many as fit.
func (p page) read(ctx context.Context, v view, limit int) (grpcmsg.Encoded, error) {
	next := page{query: p.query, at: v.position(), next: p.next, count: -1}
	pieces := make([]mem.SliceBuffer, 0, max(0, min(limit, p.count)))
	var last object.Key
	size, more := 0, false
	for o, err := range v.objects(ctx, p.query.Scope, p.next) {
		if err != nil {
			return nil, p.failed(err)
		}
		if !p.query.Selector.Matches(o) {
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
		next.next = last + "\x00"
	}
	// Objects are counted once, by the first page; the tokens remember it. What
	// has to be fetched or matched is not worth it.
	switch counts := p.query.Selector.String() == "" && v.remembered(); {
	case counts && p.count >= 0:
		next.count = p.count - len(pieces)
	case counts && more:
		next.count = v.count(p.query.Scope, next.next)
	case counts:
		next.count = 0
	}
	token := ""
	if more {
		token = next.token()
	}
	return grpcmsg.Chain(pieces, wire.AppendListEnd(nil, v.position(), token, next.count)), nil
}

// failed completes an error with what lets the list go on.
func (p page) failed(err error) error {
	if expired, ok := errors.AsType[*apierr.ExpiredError](err); ok && p.at != (object.Position{}) {
		renewed := p
		renewed.at, renewed.count = object.Position{}, -1
		return &apierr.PageExpiredError{ExpiredError: expired, Token: renewed.token()}
	}
	return err
}
