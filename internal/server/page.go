package server

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
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
	at    object.Position // of the list; zero: the newest
	next  object.Key      // the page begins here
}

func firstPage(q query) page { return page{query: q, next: q.Start} }

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
}

func (p page) token() string {
	b, err := json.Marshal(pageToken{p.query.Resource, p.query.Scope.String(), p.query.Selector.String(), p.query.Start, p.next, p.at.Epoch, p.at.Revision})
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
	if t.Resource != q.Resource || t.Scope != q.Scope.String() || t.Selector != q.Selector.String() || t.Start != q.Start {
		return page{}, errForeignPageToken
	}
	return page{query: q, at: object.Position{Epoch: t.Epoch, Revision: t.Revision}, next: max(t.Next, q.Start)}, nil
}
