package request

import (
	"encoding/base64"
	"encoding/json"
	"errors"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// Query is what all pages of a list have in common.
type Query struct {
	Resource string
	Scope    object.Scope
	Selector selector.Selector
	Start    object.Key
}

// Page is a position in a list, from which a page is read.
type Page struct {
	Query    Query
	Position object.Position // of the list; zero: not decided yet
	Next     object.Key      // the page begins here
	Count    int             // objects from there on; negative: not known
}

func FirstPage(q Query) Page { return Page{Query: q, Next: q.Start, Count: -1} }

// pageToken is the content of a page token. It has the query, so that a token of another query
// can be refused. It contains nothing secret.
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

func (p Page) Token() string {
	b, err := json.Marshal(pageToken{p.Query.Resource, p.Query.Scope.String(), p.Query.Selector.String(), p.Query.Start, p.Next, p.Position.Epoch, p.Position.Revision, p.Count})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

var (
	errNoPageToken      = errors.New("is not a page token of this service")
	errForeignPageToken = errors.New("belongs to a request with another resource, scope, selector or start_key")
)

// ParsePageToken returns the page of a token. The error is meant for the client.
func ParsePageToken(token string, q Query) (Page, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return Page{}, errNoPageToken
	}
	var t pageToken
	if err := json.Unmarshal(b, &t); err != nil || t.Revision < 0 || t.Resource == "" {
		return Page{}, errNoPageToken
	}
	if (t.Epoch == "") != (t.Revision == 0) {
		return Page{}, errNoPageToken // half a position; etcd takes revision 0 for the newest
	}
	if t.Resource != q.Resource || t.Scope != q.Scope.String() || t.Selector != q.Selector.String() || t.Start != q.Start {
		return Page{}, errForeignPageToken
	}
	p := Page{Query: q, Position: object.Position{Epoch: t.Epoch, Revision: t.Revision}, Next: max(t.Next, q.Start), Count: t.Count}
	if p.Count <= 0 {
		p.Count = -1
	}
	return p, nil
}
