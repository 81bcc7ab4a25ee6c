package server

import (
	"encoding/base64"
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
)

// Whatever a client gives for a page token is either refused or a place in the
// list that it asks for, which has a token of its own.
func FuzzPageToken(f *testing.F) {
	scope, err := object.ParsePrefix("team")
	if err != nil {
		f.Fatal(err)
	}
	picked, err := selector.ParseLabels("env=prod")
	if err != nil {
		f.Fatal(err)
	}
	q := query{Resource: "config", Scope: scope, Selector: selector.And(picked, selector.Selector{}), Start: "team/b"}
	at := object.Position{Epoch: "e", Revision: 5}
	for _, p := range []page{
		firstPage(q), {query: q, at: at, next: "team/c", count: 3}, {query: q, at: at, next: "a", count: -1}, {query: query{Resource: "other"}},
	} {
		f.Add(p.token())
	}
	for _, content := range []string{"", "{}", `{"r":"config"}`, `{"r":"config","v":-1}`, `{"r":"config","c":-9223372036854775808}`, "[1]"} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(content)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := parsePageToken(token, q)
		if err != nil {
			return
		}
		if p.next < q.Start || p.at.Revision < 0 || p.query.Resource != q.Resource || p.query.Scope != q.Scope {
			t.Fatalf("%q is the place %+v", token, p)
		}
		again, err := parsePageToken(p.token(), q)
		if err != nil {
			t.Fatalf("the token of %+v is refused: %v", p, err)
		}
		if again.next != p.next || again.at != p.at || again.count != p.count {
			t.Fatalf("%+v became %+v", p, again)
		}
	})
}
