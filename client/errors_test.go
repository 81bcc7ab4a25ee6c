package client_test

import (
	"errors"
	"os"
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/test/constants"
)

func TestEveryDocumentedReasonIsAnError(t *testing.T) {
	doc, err := os.ReadFile("../docs/reference/errors.md")
	if err != nil {
		t.Fatal(err)
	}
	var documented []string
	for _, m := range regexp.MustCompile("(?m)^\\| `([A-Z_]+)` \\| `[A-Z_]+` \\| .* \\| (?:yes|no) \\|").FindAllSubmatch(doc, -1) {
		documented = append(documented, string(m[1]))
	}
	if len(documented) < 10 {
		t.Fatalf("got %d reasons in docs/reference/errors.md, want at least 10", len(documented))
	}
	known := constants.Of[string](t, "errors.go", "Reason")
	slices.Sort(documented)
	slices.Sort(known)
	if diff := cmp.Diff(documented, known); diff != "" {
		t.Errorf("-docs/reference/errors.md +errors.go:\n%s", diff)
	}
}

func TestErrorsHaveTheDetailsOfTheServer(t *testing.T) {
	t.Parallel()
	c, ctx := newClient(t, newServer(t).Address()), testContext(t)
	r := c.Resource("config")
	_, err := c.Resource("nothing").Get(ctx, "a")
	if e, ok := errors.AsType[*client.Error](err); !errors.Is(err, client.ErrUnknownResource) || !ok || e.Metadata["resource"] != "nothing" {
		t.Errorf("got %v", err)
	}
	_, err = r.Put(ctx, "/a", client.Text("x"))
	if e, ok := errors.AsType[*client.Error](err); !errors.Is(err, client.ErrInvalidRequest) || !ok || len(e.Violations) != 1 || e.Violations[0].Field != "put.key" {
		t.Errorf("got %v", err)
	}
	_, err = r.Get(ctx, "a", client.AtRevision(1_000_000))
	if !errors.Is(err, client.ErrRevisionInFuture) || errors.Is(err, client.ErrRevisionExpired) {
		t.Errorf("got %v", err)
	}
}
