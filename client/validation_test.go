package client_test

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/test/certs"
)

const percentRules = `
checks:
- keys: [flags/*]
  schema:
    type: object
    properties: {percent: {type: integer, maximum: 100}}
  rules:
  - {rule: "self != null", message: flags stay, deletes: true}
`

// newValidated starts a server that checks percentRules, and returns its resource.
func newValidated(t *testing.T) *client.Resource {
	t.Helper()
	server := newServer(t, func(cfg *config.Config) {
		r := config.NewResource("config")
		r.ValidationFile = filepath.Join(t.TempDir(), "rules.yaml")
		certs.Write(t, r.ValidationFile, []byte(percentRules))
		cfg.Resources = []config.Resource{r}
	})
	return newClient(t, server.Address()).Resource("config")
}

// checkRefusal checks that an error names one fault.
func checkRefusal(t *testing.T, err error, want client.Violation) {
	t.Helper()
	e, ok := errors.AsType[*client.Error](err)
	if !ok || !errors.Is(err, client.ErrValueRefused) {
		t.Errorf("got %v, want a refusal", err)
		return
	}
	if diff := cmp.Diff([]client.Violation{want}, e.Violations); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestRefusedValuesNameTheirFaults(t *testing.T) {
	t.Parallel()
	r, ctx := newValidated(t), testContext(t)
	bad, good := client.JSON(map[string]int{"percent": 5000}), client.JSON(map[string]int{"percent": 5})
	fault := client.Violation{Field: "put.value/percent", Description: "must be at most 100, is 5000"}

	if err := r.Validate(ctx, "flags/a", good); err != nil {
		t.Error(err)
	}
	checkRefusal(t, r.Validate(ctx, "flags/a", bad), fault)
	if err := r.Validate(ctx, "elsewhere", bad); err != nil {
		t.Error(err)
	}
	_, err := r.Put(ctx, "flags/a", bad)
	checkRefusal(t, err, fault)
	_, err = r.Update(ctx, "flags/a", func(*client.Object) (*client.Value, error) { return &bad, nil })
	checkRefusal(t, err, fault)
	_, err = r.Transact(ctx, client.OpPut("flags/b", good), client.OpPut("flags/a", bad))
	checkRefusal(t, err, client.Violation{Field: "operations[1].put.value/percent", Description: fault.Description})
	if n, err := r.Count(ctx); err != nil || n != 0 {
		t.Errorf("got %d objects and %v, want none", n, err)
	}
}

func TestSkipValidation(t *testing.T) {
	t.Parallel()
	r, ctx := newValidated(t), testContext(t)
	bad := client.JSON(map[string]int{"percent": 5000})
	if _, err := r.Put(ctx, "flags/a", bad, client.SkipValidation()); err != nil {
		t.Error(err)
	}
	if _, err := r.TryPut(ctx, "flags/b", bad, client.SkipValidation()); err != nil {
		t.Error(err)
	}
	if _, err := r.Update(ctx, "flags/c", func(*client.Object) (*client.Value, error) { return &bad, nil }, client.SkipValidation()); err != nil {
		t.Error(err)
	}
	if _, err := r.Transact(ctx, client.OpPut("flags/d", bad, client.SkipValidation()), client.OpPut("flags/e", bad)); err != nil {
		t.Error(err)
	}
	if _, _, err := r.Delete(ctx, "flags/a"); !errors.Is(err, client.ErrValueRefused) {
		t.Errorf("Delete: got %v", err)
	}
	if _, deleted, err := r.Delete(ctx, "flags/a", client.SkipValidation()); err != nil || !deleted {
		t.Errorf("Delete: got %v and %v", deleted, err)
	}
	if o, err := r.TryDelete(ctx, "flags/b", client.SkipValidation()); err != nil || !o.Deleted {
		t.Errorf("TryDelete: got %+v and %v", o, err)
	}
	if _, err := r.Transact(ctx, client.OpDelete("flags/c", client.SkipValidation()), client.OpDelete("flags/d")); err != nil {
		t.Error(err)
	}
}
