package request

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
	q := Query{Resource: "config", Scope: scope, Selector: selector.And(picked, selector.Selector{}), Start: "team/b"}
	at := object.Position{Epoch: "e", Revision: 5}
	for _, p := range []Page{
		FirstPage(q), {Query: q, Position: at, Next: "team/c", Count: 3}, {Query: q, Position: at, Next: "a", Count: -1}, {Query: Query{Resource: "other"}},
	} {
		f.Add(p.Token())
	}
	for _, content := range []string{"", "{}", `{"r":"config"}`, `{"r":"config","v":-1}`, `{"r":"config","c":-9223372036854775808}`, "[1]"} {
		f.Add(base64.RawURLEncoding.EncodeToString([]byte(content)))
	}
	f.Fuzz(func(t *testing.T, token string) {
		p, err := ParsePageToken(token, q)
		if err != nil {
			return
		}
		if p.Next < q.Start || p.Position.Revision < 0 || p.Query.Resource != q.Resource || p.Query.Scope != q.Scope {
			t.Fatalf("%q is the place %+v", token, p)
		}
		again, err := ParsePageToken(p.Token(), q)
		if err != nil {
			t.Fatalf("the token of %+v is refused: %v", p, err)
		}
		if again.Next != p.Next || again.Position != p.Position || again.Count != p.Count {
			t.Fatalf("%+v became %+v", p, again)
		}
	})
}
