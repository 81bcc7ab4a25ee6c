package client_test

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
)

// gRPC cannot encode a string that is not UTF-8. The client names the field, as the
// server would, even if there is no server.
func TestStringsThatAreNotUTF8AreRefused(t *testing.T) {
	const bad = "caf\xe9"
	c, err := client.New("127.0.0.1:1", client.WithInsecure()) // no server
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	r, ctx := c.Resource("config"), testContext(t)
	good := client.Text("x")
	for name, ask := range map[string]struct {
		ask    func(ctx context.Context) error
		fields []string
	}{
		"a resource": {func(ctx context.Context) error { _, err := c.Resource(bad).Get(ctx, "a"); return err }, []string{"resource"}},
		"get":        {func(ctx context.Context) error { _, err := r.Get(ctx, bad); return err }, []string{"key"}},
		"list": {func(ctx context.Context) error {
			for _, err := range r.List(ctx, client.Labels(bad), client.Prefix(bad)) {
				return err
			}
			return nil
		}, []string{"scope.prefix", "label_selector"}},
		"a page":         {func(ctx context.Context) error { _, err := r.ListPage(ctx, client.PageToken(bad)); return err }, []string{"page_token"}},
		"put":            {func(ctx context.Context) error { _, err := r.Put(ctx, bad, good); return err }, []string{"put.key"}},
		"a content type": {func(ctx context.Context) error { _, err := r.Put(ctx, "a", good.WithContentType(bad)); return err }, []string{"put.content_type"}},
		"the name of a label": {func(ctx context.Context) error {
			_, err := r.Put(ctx, "a", good.WithLabels(map[string]string{bad: "x"}))
			return err
		}, []string{"put.labels"}},
		"a label": {func(ctx context.Context) error {
			_, err := r.Put(ctx, "a", good.WithLabels(map[string]string{"env": bad}))
			return err
		}, []string{`put.labels["env"]`}},
		"delete": {func(ctx context.Context) error { _, _, err := r.Delete(ctx, bad); return err }, []string{"delete.key"}},
		"transact": {func(ctx context.Context) error {
			_, err := r.Transact(ctx, client.OpPut("a", good), client.OpDelete(bad), client.OpCheck(bad, 1))
			return err
		}, []string{"operations[1].delete.key", "operations[2].check.key"}},
		"update": {func(ctx context.Context) error {
			_, err := r.Update(ctx, bad, func(*client.Object) (*client.Value, error) { return &good, nil })
			return err
		}, []string{"key"}},
	} {
		t.Run(name, func(t *testing.T) {
			err := ask.ask(ctx)
			e, ok := errors.AsType[*client.Error](err)
			if !ok || !errors.Is(err, client.ErrInvalidRequest) {
				t.Fatalf("got %v", err)
			}
			var fields []string
			for _, v := range e.Violations {
				fields = append(fields, v.Field)
			}
			if diff := cmp.Diff(ask.fields, fields); diff != "" {
				t.Errorf("%v: -want +got:\n%s", err, diff)
			}
		})
	}
	// A value that is not UTF-8 is sent as bytes.
	if _, err := r.Put(ctx, "a", client.Text(bad)); errors.Is(err, client.ErrInvalidRequest) {
		t.Error(err)
	}
}
