package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/store"
)

// flagRules are the rules of the resource documents in the tests below.
const flagRules = `
checks:
  - keys: [flags/*]
    schema:
      type: object
      required: [percent]
      properties: {percent: {type: integer, maximum: 100}}
    rules:
      - rule: oldSelf == null || self.percent >= oldSelf.percent
        message: must not shrink
        path: /percent
      - rule: self != null || oldSelf.percent == 0
        message: a flag that is on must not be deleted
        deletes: true
`

// everyValidator runs a test with cached and uncached resources whose documents have rules.
func everyValidator(t *testing.T, test func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam)) {
	t.Parallel()
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			seams := map[string]*seam{}
			in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{
				uncached:   uncached,
				codecs:     map[string]string{blobs: "protobuf"},
				schemas:    map[string]object.Schema{blobs: {Message: routeType(t)}},
				validation: map[string]string{documents: flagRules, config: flagRules, blobs: "checks: [{rules: [{rule: 'self.region != \"eu\"', message: not here, path: /region}]}]"},
				interfere:  func(resource string, s *seam) { seams[resource] = s },
			})
			test(within(t), t, in, seams)
		})
	}
}

func refusedValue(key string, fields ...string) refusal {
	return refusal{Code: codes.InvalidArgument, Reason: apierr.ReasonValueRefused, Metadata: map[string]string{"key": key}, Fields: fields}
}

func percent(n int) string { return fmt.Sprintf(`{"percent": %d}`, n) }

func deleteOf(resource, key string) *fanoutv1.DeleteRequest {
	return &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: key}}
}

// Every write is checked before anything is stored, and the refusal names the fault.
func TestWritesAreValidated(t *testing.T) {
	everyValidator(t, func(ctx context.Context, t *testing.T, in *instance, _ map[string]*seam) {
		put := func(text string) error {
			_, err := in.writes.Put(ctx, putOf(documents, putText("flags/a", text)))
			return err
		}
		wantRefusal(t, put(percent(5000)), refusedValue("flags/a", "put.value/percent"))
		wantRefusal(t, put(`{}`), refusedValue("flags/a", "put.value/percent"))
		if message := status.Convert(put(percent(5000))).Message(); !strings.Contains(message, `"flags/a"`) || !strings.Contains(message, "/percent must be at most 100, is 5000") {
			t.Errorf("got %s", message)
		}
		if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: documents, Key: "flags/a"}); status.Code(err) != codes.NotFound {
			t.Errorf("a refused value was stored: %v", err)
		}
		in.put(ctx, t, documents, "flags/a", percent(10))
		in.put(ctx, t, documents, "flags/a", percent(20))
		wantRefusal(t, put(percent(15)), refusedValue("flags/a", "put.value/percent"))
		_, err := in.writes.Delete(ctx, deleteOf(documents, "flags/a"))
		wantRefusal(t, err, refusedValue("flags/a", "delete"))

		// In a transaction, the operation is named, and nothing is stored.
		_, err = in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: documents, Operations: []*fanoutv1.Operation{
			{Operation: &fanoutv1.Operation_Put{Put: putText("flags/b", percent(1))}},
			{Operation: &fanoutv1.Operation_Put{Put: putText("flags/a", percent(200))}},
		}})
		wantRefusal(t, err, refusedValue("flags/a", "operations[1].put.value/percent"))
		if _, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: documents, Key: "flags/b"}); status.Code(err) != codes.NotFound {
			t.Errorf("a part of a refused transaction was stored: %v", err)
		}

		// A precondition that does not hold is the reason, as before.
		conditional := putText("flags/a", percent(1))
		conditional.IfModRevision = new(int64(1))
		_, err = in.writes.Put(ctx, putOf(documents, conditional))
		if got := refusalIn(t, err); got.Reason != apierr.ReasonPreconditionFailed {
			t.Errorf("got %v, want PRECONDITION_FAILED", got)
		}

		// Keys without checks, and deletes of what is not there, are not concerned.
		in.put(ctx, t, documents, "other", percent(5000))
		if _, err := in.writes.Delete(ctx, deleteOf(documents, "flags/missing")); err != nil {
			t.Error(err)
		}

		// Messages are checked in their JSON form.
		_, err = in.writes.Put(ctx, putOf(blobs, putText("r", `{"region": "eu"}`)))
		wantRefusal(t, err, refusedValue("r", "put.value/region"))
		in.put(ctx, t, blobs, "r", `{"region": "us"}`)
		// Text is not a document, so a schema refuses it.
		_, err = in.writes.Put(ctx, putOf(config, putText("flags/a", percent(1))))
		wantRefusal(t, err, refusedValue("flags/a", "put.value"))
	})
}

// An object whose old value the codec cannot decode is as good as none for rules, if it may be replaced at all.
func TestRulesOverOpaqueObjects(t *testing.T) {
	everyValidator(t, func(ctx context.Context, t *testing.T, in *instance, _ map[string]*seam) {
		at := in.commit(ctx, t, documents, "flags/a", []byte("percent: 50"))
		_, err := in.writes.Put(ctx, putOf(documents, putText("flags/a", percent(1))))
		wantRefusal(t, err, opaque("flags/a", at))
		conditional := putText("flags/a", percent(1))
		conditional.IfModRevision = new(at + 1000)
		_, err = in.writes.Put(ctx, putOf(documents, conditional))
		if got := refusalIn(t, err); got.Reason != apierr.ReasonPreconditionFailed {
			t.Errorf("got %v, want PRECONDITION_FAILED", got)
		}
		in.overwrite(ctx, t, documents, "flags/a", percent(1))
		in.put(ctx, t, documents, "flags/a", percent(2))
	})
}

// An old object that rules cannot read is not "no object": what they compare with it is refused.
func TestRulesOverObjectsThatTheyCannotRead(t *testing.T) {
	t.Parallel()
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{
				uncached: uncached,
				codecs:   map[string]string{blobs: "protobuf"},
				schemas:  map[string]object.Schema{blobs: {Message: routeType(t)}},
				validation: map[string]string{
					blobs:     "checks: [{rules: [{rule: 'oldSelf == null || self.region == oldSelf.region', message: region must not change}]}]",
					documents: "checks: [{keys: [flags/*], rules: [{rule: 'oldSelf == null || self == null || self.percent == oldSelf.percent', message: must not change, deletes: true}]}, {keys: [other], rules: [{rule: 'true', message: m}]}]",
				},
			})
			ctx := within(t)
			in.put(ctx, t, blobs, "r", `{"region": "us"}`)
			stored, _, err := in.collections[blobs].List(ctx, 0, object.ExactKey("r"), "", 1)
			if err != nil {
				t.Fatal(err)
			}
			unknown := protowire.AppendVarint(protowire.AppendTag(bytes.Clone(stored[0].Value), 1023, protowire.VarintType), 1)
			in.commit(ctx, t, blobs, "r", unknown)
			_, err = in.writes.Put(ctx, putOf(blobs, putText("r", `{"region": "eu"}`)))
			wantRefusal(t, err, refusedValue("r", "put.value"))

			twice := []byte(`{"percent": 0, "percent": 1}`)
			in.commit(ctx, t, documents, "flags/a", twice)
			_, err = in.writes.Put(ctx, putOf(documents, putText("flags/a", percent(50))))
			wantRefusal(t, err, refusedValue("flags/a", "put.value"))
			_, err = in.writes.Delete(ctx, deleteOf(documents, "flags/a"))
			wantRefusal(t, err, refusedValue("flags/a", "delete"))
			in.commit(ctx, t, documents, "flags/b", []byte("percent: 1"))
			_, err = in.writes.Delete(ctx, deleteOf(documents, "flags/b"))
			wantRefusal(t, err, refusedValue("flags/b", "delete"))
			in.overwrite(ctx, t, documents, "flags/b", percent(1))

			// Rules that do not mention it are not concerned.
			in.commit(ctx, t, documents, "other", twice)
			in.put(ctx, t, documents, "other", percent(1))
			skipping := putOf(documents, putText("flags/a", percent(50)))
			skipping.SkipValidation = true
			if _, err := in.writes.Put(ctx, skipping); err != nil {
				t.Error(err)
			}
		})
	}
}

// The longest refusal reaches a client that accepts 8 KiB of trailer.
func TestRefusalsFitIntoTheTrailer(t *testing.T) {
	for name, letter := range map[string]string{"ascii": "ee", "two bytes": "é", "escaped": `\\n`} {
		t.Run(name, func(t *testing.T) {
			rule := `{rule: 'self.x == 1', message: "` + strings.Repeat(letter, 119) + `", path: "/` + strings.Repeat(letter, 79) + `"}`
			in := start(t, settings{validation: map[string]string{documents: "checks: [{rules: [" + strings.Repeat(rule+",", 7) + rule + "]}]"}})
			_, err := in.writes.Put(within(t), putOf(documents, putText(strings.Repeat("é", object.MaxKeyBytes/2), `{"x": 2}`)))
			if got := refusalIn(t, err); got.Reason != apierr.ReasonValueRefused || len(got.Fields) < 4 {
				t.Errorf("got %s with %d violations: %.200v", got.Reason, len(got.Fields), err)
			}
		})
	}
}

// With validate_only, nothing is written; with skip_validation, nothing is checked.
func TestValidateOnlyAndSkipValidation(t *testing.T) {
	everyValidator(t, func(ctx context.Context, t *testing.T, in *instance, _ map[string]*seam) {
		in.put(ctx, t, documents, "flags/a", percent(50))
		before := in.revision(ctx, t)
		asked := func(text string, change ...func(*fanoutv1.PutRequest)) error {
			req := putOf(documents, putText("flags/a", text))
			req.ValidateOnly = true
			for _, c := range change {
				c(req)
			}
			resp, err := in.writes.Put(ctx, req)
			if err == nil && (resp.GetApplied() || resp.GetRevision() != 0) {
				t.Errorf("got %v, want nothing applied", resp)
			}
			return err
		}
		if err := asked(percent(60)); err != nil {
			t.Error(err)
		}
		wantRefusal(t, asked(percent(5000)), refusedValue("flags/a", "put.value/percent"))
		wantRefusal(t, asked(percent(40)), refusedValue("flags/a", "put.value/percent"))
		if err := asked(percent(40), func(r *fanoutv1.PutRequest) { r.Put.IfModRevision = new(int64(0)) }); err != nil {
			t.Errorf("as a new object: %v", err)
		}
		if err := asked(percent(60), func(r *fanoutv1.PutRequest) { r.Put.IfModRevision = new(int64(1)) }); err != nil {
			t.Errorf("a precondition was compared: %v", err)
		}
		wantRefusal(t, asked(percent(60), func(r *fanoutv1.PutRequest) { r.SkipValidation = true }), invalid("skip_validation"))
		req := deleteOf(documents, "flags/a")
		req.ValidateOnly = true
		_, err := in.writes.Delete(ctx, req)
		wantRefusal(t, err, refusedValue("flags/a", "delete"))
		_, err = in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: documents, ValidateOnly: true, Operations: []*fanoutv1.Operation{
			{Operation: &fanoutv1.Operation_Put{Put: putText("flags/b", percent(1))}},
		}})
		if err != nil {
			t.Error(err)
		}
		if after := in.revision(ctx, t); after != before {
			t.Errorf("something was written: etcd went from %d to %d", before, after)
		}

		skipping := putOf(documents, putText("flags/a", percent(5000)))
		skipping.SkipValidation = true
		if _, err := in.writes.Put(ctx, skipping); err != nil {
			t.Error(err)
		}
		deleting := deleteOf(documents, "flags/a")
		deleting.SkipValidation = true
		if resp, err := in.writes.Delete(ctx, deleting); err != nil || !resp.GetDeleted() {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

// To skip validation needs a right of its own, and is audited. A request for validation only is not a write.
func TestSkipValidationNeedsARight(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log, validation: map[string]string{documents: flagRules}, policy: `rules:
- {subjects: [ada], verbs: [put, delete], resources: [documents]}
- {subjects: [grace], verbs: [put, skip-validation], resources: [documents], prefixes: [flags]}
`})
	ctx := within(t)
	skipping := putOf(documents, putText("flags/a", percent(5000)))
	skipping.SkipValidation = true
	_, err := in.as(t, "ada").writes.Put(ctx, skipping)
	wantRefusal(t, err, refusal{Code: codes.PermissionDenied, Reason: apierr.ReasonPermissionDenied, Metadata: map[string]string{"verb": "skip-validation", "resource": documents}})
	_, err = in.as(t, "ada").writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: documents, SkipValidation: true, Operations: []*fanoutv1.Operation{
		{Operation: &fanoutv1.Operation_Put{Put: putText("flags/a", percent(5000))}},
	}})
	if got := refusalIn(t, err); got.Reason != apierr.ReasonPermissionDenied {
		t.Errorf("got %v, want PERMISSION_DENIED", got)
	}
	if _, err := in.as(t, "grace").writes.Put(ctx, skipping); err != nil {
		t.Fatal(err)
	}
	asking := putOf(documents, putText("flags/a", percent(1)))
	asking.ValidateOnly = true
	_, err = in.as(t, "grace").writes.Put(ctx, asking)
	wantRefusal(t, err, refusedValue("flags/a", "put.value/percent"))
	in.stop(ctx)
	var skipped []line
	for _, l := range log.lines(t) {
		if l["msg"] == "write" {
			skipped = append(skipped, l)
		}
	}
	if len(skipped) != 1 || skipped[0]["skipped_validation"] != true || skipped[0]["identity"] != "grace" {
		t.Errorf("got records %v, want one of a write that was not validated", skipped)
	}
}

// A write is checked against the object that it replaces, even if that was stored between the check and the write.
func TestObjectsOfOneMomentAgoAreChecked(t *testing.T) {
	everyValidator(t, func(ctx context.Context, t *testing.T, in *instance, seams map[string]*seam) {
		in.put(ctx, t, documents, "flags/a", percent(10))
		var once sync.Once
		seams[documents].on(func(ctx context.Context, method string) error {
			if method == "Commit" {
				once.Do(func() { in.commit(ctx, t, documents, "flags/a", []byte(percent(50))) })
			}
			return nil
		})
		_, err := in.writes.Put(ctx, putOf(documents, putText("flags/a", percent(20))))
		wantRefusal(t, err, refusedValue("flags/a", "put.value/percent"))
		once = sync.Once{}
		_, err = in.writes.Put(ctx, putOf(documents, putText("flags/a", percent(60))))
		if err != nil {
			t.Error(err)
		}
		// The same for a delete.
		in.commit(ctx, t, documents, "flags/b", []byte(percent(0)))
		seams[documents].on(func(ctx context.Context, method string) error {
			if method == "Commit" {
				in.commit(ctx, t, documents, "flags/b", []byte(percent(1)))
			}
			return nil
		})
		_, err = in.writes.Delete(ctx, deleteOf(documents, "flags/b"))
		wantRefusal(t, err, refusedValue("flags/b", "delete"))

		// Who is overtaken each time gives up, and can try again.
		attempts := 0
		seams[documents].on(func(ctx context.Context, method string) error {
			if method == "Commit" {
				attempts++
				in.commit(ctx, t, documents, "flags/a", []byte(percent(60)))
			}
			return nil
		})
		_, err = in.writes.Put(ctx, putOf(documents, putText("flags/a", percent(70))))
		wantRefusal(t, err, refusal{Code: codes.Aborted, Reason: apierr.ReasonWriteContended, Retry: true})
		if attempts != 16 {
			t.Errorf("got %d attempts, want 16", attempts)
		}
	})
}

// counted is a document of the model test.
type counted struct {
	N int `json:"n"`
}

// TestRulesSeeTheObjectThatIsReplaced has several servers over one etcd write the same keys. The rules allow a
// number only after the one before it, and the deletion of even numbers only. So the history of etcd shows whether a
// rule has ever seen another object than the one that its write has replaced.
func TestRulesSeeTheObjectThatIsReplaced(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const rules = `
checks:
  - rules:
      - rule: "self == null || (oldSelf == null ? self.n == 0 : self.n == oldSelf.n + 1)"
        message: must be the next number
      - rule: "self != null || oldSelf.n % 2 == 0"
        message: only even numbers may be deleted
        deletes: true
`
	etcd := openEtcd(t, 0)
	ctx := within(t)
	var servers []*instance
	for i := range 3 {
		servers = append(servers, startOver(t, etcd, settings{validation: map[string]string{documents: rules}, uncached: i == 2}))
	}
	keys := []string{"a", "b", "c"}
	begin := servers[0].revision(ctx, t)
	var mu sync.Mutex
	direct := map[object.Revision]bool{} // writes of another program, which no rule has seen; guarded by mu
	applied, refused := 0, 0             // guarded by mu
	var writers sync.WaitGroup
	for w := range 9 {
		writers.Go(func() {
			random, in := rand.New(rand.NewPCG(1, uint64(w))), servers[w%3]
			for range 60 {
				operations := []*fanoutv1.Operation{}
				for _, i := range random.Perm(len(keys))[:1+random.IntN(2)] {
					key, next := keys[i], 0
					if o, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: documents, Key: key, Consistency: anyRevision()}); err == nil {
						var c counted
						if err := json.Unmarshal([]byte(o.GetObject().GetText()), &c); err != nil {
							t.Error(err)
						}
						next = c.N + 1
					}
					switch random.IntN(8) {
					case 0:
						operations = append(operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: key}}})
					default:
						operations = append(operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(key, fmt.Sprintf(`{"n": %d}`, next))}})
					}
				}
				if random.IntN(20) == 0 {
					at := in.commit(ctx, t, documents, keys[random.IntN(len(keys))], fmt.Appendf(nil, `{"n": %d}`, random.IntN(10)))
					mu.Lock()
					direct[object.Revision(at)] = true
					mu.Unlock()
				}
				_, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: documents, Operations: operations})
				mu.Lock()
				if err == nil {
					applied++
				} else if reason := refusalIn(t, err).Reason; reason == apierr.ReasonValueRefused {
					refused++
				} else if reason != apierr.ReasonWriteContended {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	if applied < 50 || refused < 5 {
		t.Errorf("%d writes were applied and %d refused, want many of both", applied, refused)
	}
	end := servers[0].revision(ctx, t)
	for _, key := range keys {
		var before *counted
		for at := object.Revision(begin + 1); at <= object.Revision(end); at++ {
			records, _, err := servers[0].collections[documents].List(ctx, at, object.ExactKey(object.Key(key)), "", 1)
			if err != nil {
				t.Fatal(err)
			}
			var now *counted
			if len(records) > 0 {
				now = &counted{}
				if err := json.NewDecoder(bytes.NewReader(records[0].Value)).Decode(now); err != nil {
					t.Fatal(err)
				}
			}
			switch changed := len(records) > 0 && records[0].ModRevision == at || now == nil && before != nil; {
			case !changed, direct[at]:
			case now == nil && before.N%2 != 0:
				t.Errorf("revision %d deleted %s although its number was %d", at, key, before.N)
			case now == nil:
			case before == nil && now.N != 0, before != nil && now.N != before.N+1:
				t.Errorf("revision %d stored %d at %s over %+v", at, now.N, key, before)
			}
			before = now
		}
	}
}

// The status of a resource has the hash of its rules.
func TestListResourcesShowsTheRules(t *testing.T) {
	in := start(t, settings{validation: map[string]string{documents: flagRules}})
	ctx := within(t)
	resp, err := fanoutv1.NewAdminServiceClient(in.conn).ListResources(ctx, &fanoutv1.ListResourcesRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range resp.GetResources() {
		if has := r.GetValidation().GetHash() != ""; has != (r.GetName() == documents) {
			t.Errorf("%s: got %v", r.GetName(), r.GetValidation())
		}
	}
}

// The faults of a large transaction fit into the trailer that strict clients accept.
func TestRefusalsAreBounded(t *testing.T) {
	in := start(t, settings{validation: map[string]string{documents: "checks: [{schema: {additionalProperties: false}}]"}})
	var text strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&text, `%q: 1,`, strings.Repeat(`"é/`, 100)+fmt.Sprint(i))
	}
	_, err := in.writes.Put(within(t), putOf(documents, putText(strings.Repeat("k", 1000), "{"+strings.TrimSuffix(text.String(), ",")+"}")))
	if got := refusalIn(t, err); got.Reason != apierr.ReasonValueRefused || len(got.Fields) < 5 {
		t.Errorf("got %v", got)
	}
	for _, d := range status.Convert(err).Details() {
		if bad, ok := d.(*errdetails.BadRequest); ok && len(bad.GetFieldViolations()) == 0 {
			t.Error("no violations")
		}
	}
}

// A resource without rules pays nothing for those of others.
func TestWritesWithoutRulesAllocateNothing(t *testing.T) {
	write := server.UncheckedWrite(t.Context(), &backend.Resource{Name: config})
	if n := testing.AllocsPerRun(100, func() {
		if err := write(); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("a put allocates %v times before it is sent to the store", n)
	}
}
