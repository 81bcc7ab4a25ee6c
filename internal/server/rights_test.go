package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Alice may do everything. Each test decides what bob may do.
const aliceMay = `
rules:
- subjects: [alice]
  verbs: ["*"]
  resources: ["*"]
`

func bobMay(verbs, resource, rest string) string {
	return aliceMay + fmt.Sprintf("- {subjects: [bob], verbs: [%s], resources: [%s]%s}\n", verbs, resource, rest)
}

// denied is the refusal of a request that the policy does not allow.
func denied(verb, resource string) refusal {
	return refusal{
		Code: codes.PermissionDenied, Reason: apierr.ReasonPermissionDenied,
		Metadata: map[string]string{"verb": verb, "resource": resource},
	}
}

var unauthenticated = refusal{Code: codes.Unauthenticated, Reason: apierr.ReasonUnauthenticated}

// protectedRequest is a request and the right that it needs.
type protectedRequest struct {
	name string
	verb string // of the right
	send func(ctx context.Context, in *instance) error
}

func transact(operations ...*fanoutv1.Operation) func(ctx context.Context, in *instance, resource string) error {
	return func(ctx context.Context, in *instance, resource string) error {
		_, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: resource, Operations: operations})
		return err
	}
}

func putOp(key string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(key, "x")}}
}

func deleteOp(key string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: key}}}
}

func checkOp(key string) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: key, ModRevision: new(int64(0))}}}
}

// first starts a watch and returns its first error, or nil if it begins.
func first(ctx context.Context, in *instance, req *fanoutv1.WatchRequest) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := in.reads.Watch(ctx, req)
	if err == nil {
		_, err = stream.Recv()
	}
	return err
}

// resourceRequests returns one request of each kind. Each is about either the key or the
// scope.
func resourceRequests(resource, key string, scope *fanoutv1.Scope) []protectedRequest {
	transacting := func(operations ...*fanoutv1.Operation) func(context.Context, *instance) error {
		send := transact(operations...)
		return func(ctx context.Context, in *instance) error { return send(ctx, in, resource) }
	}
	return []protectedRequest{
		{"Get", "get", func(ctx context.Context, in *instance) error {
			_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: resource, Key: key})
			return err
		}},
		{"List", "list", func(ctx context.Context, in *instance) error {
			_, err := in.reads.List(ctx, &fanoutv1.ListRequest{Resource: resource, Scope: scope, FieldSelector: "undeclared=1"})
			return err
		}},
		{"Watch", "watch", func(ctx context.Context, in *instance) error {
			return first(ctx, in, &fanoutv1.WatchRequest{Resource: resource, Scope: scope, PreviousObject: true, OmitValues: true})
		}},
		{"Put", "put", func(ctx context.Context, in *instance) error {
			_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: putText(key, "x")})
			return err
		}},
		{"Delete", "delete", func(ctx context.Context, in *instance) error {
			_, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: resource, Delete: &fanoutv1.DeleteOperation{Key: key}})
			return err
		}},
		{"Transact put", "put", transacting(putOp(key))},
		{"Transact delete", "delete", transacting(deleteOp(key))},
		{"Transact check", "get", transacting(checkOp(key))},
		{"Transact nothing", "put", transacting()},
		{"Transact no operation", "put", transacting(&fanoutv1.Operation{})},
		{"ListWatchers", "admin", func(ctx context.Context, in *instance) error {
			_, err := in.admin().ListWatchers(ctx, &fanoutv1.ListWatchersRequest{Resource: resource, PageSize: -1})
			return err
		}},
		{"Reencrypt", "admin", func(ctx context.Context, in *instance) error {
			_, err := in.admin().Reencrypt(ctx, &fanoutv1.ReencryptRequest{Resource: resource, PageSize: -1})
			return err
		}},
	}
}

// serverRequests are the requests that concern the whole server.
var serverRequests = []protectedRequest{
	{"ListResources", "admin", func(ctx context.Context, in *instance) error {
		_, err := in.admin().ListResources(ctx, &fanoutv1.ListResourcesRequest{MeasureLag: true})
		return err
	}},
	{"ListWatchers of all", "admin", func(ctx context.Context, in *instance) error {
		_, err := in.admin().ListWatchers(ctx, &fanoutv1.ListWatchersRequest{})
		return err
	}},
	{"EndWatcher", "admin", func(ctx context.Context, in *instance) error {
		_, err := in.admin().EndWatcher(ctx, &fanoutv1.EndWatcherRequest{})
		return err
	}},
}

// A write that returns objects reads them, so it needs the right to get them as well.
func TestWritesThatReturnObjectsNeedGet(t *testing.T) {
	in := start(t, settings{policy: bobMay("put, delete", config, "")})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	before := alice.put(ctx, t, config, "a", "1")
	transaction := func(returnCurrent bool, operation *fanoutv1.Operation) error {
		_, err := bob.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, ReturnCurrent: returnCurrent, Operations: []*fanoutv1.Operation{operation}})
		return err
	}
	returning := &fanoutv1.DeleteOperation{Key: "a", ReturnDeleted: true}
	for name, send := range map[string]func() error{
		"Put": func() error {
			_, err := bob.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "2"), ReturnCurrent: true})
			return err
		},
		"Delete, current": func() error {
			_, err := bob.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: "a"}, ReturnCurrent: true})
			return err
		},
		"Delete, deleted": func() error {
			_, err := bob.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: returning})
			return err
		},
		"Transact put, current":    func() error { return transaction(true, putOp("a")) },
		"Transact delete, current": func() error { return transaction(true, deleteOp("a")) },
		"Transact delete, deleted": func() error {
			return transaction(false, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: returning}})
		},
	} {
		t.Run(name, func(t *testing.T) { wantRefusal(t, send(), denied("get", config)) })
	}
	if after := in.revision(ctx, t); after != before {
		t.Errorf("got revision %d, want %d: the requests must write nothing", after, before)
	}
	bob.put(ctx, t, config, "a", "2")
}

// A denied client learns nothing: neither whether a resource, key or field exists, nor
// what else is wrong with its request. The request costs the server no work.
func TestDeniedRequestsRevealNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	in := start(t, settings{policy: bobMay("get, list, watch, put, delete", config, ", keys: [elsewhere]") +
		"- {subjects: [anonymous], verbs: [get], resources: [config], keys: [elsewhere]}\n"})
	ctx := within(t)
	alice := in.as(t, "alice")
	alice.awaitLoaded(ctx, t)
	alice.put(ctx, t, config, "there", "1")
	before := in.cost(ctx, t)
	for _, who := range []struct {
		name string
		in   *instance
		want func(verb, resource string) refusal
	}{
		{"bob", in.as(t, "bob"), denied},
		{"mallory", in.as(t, "mallory", "alice"), denied},
		{"anonymous", in, func(string, string) refusal { return unauthenticated }},
	} {
		for _, resource := range []string{config, "unknown", ""} {
			for _, about := range []struct {
				key   string
				scope *fanoutv1.Scope
			}{
				{"there", nil},
				{"absent", prefix("there")},
				{"not//a key", exactly("there")},
				{strings.Repeat("k", 2000), exactly("absent")},
			} {
				for _, a := range resourceRequests(resource, about.key, about.scope) {
					if a.name == "ListWatchers" && resource == "" {
						continue
					}
					t.Run(fmt.Sprintf("%s/%s/%q/%.10q/%v", who.name, a.name, resource, about.key, about.scope), func(t *testing.T) {
						wantRefusal(t, a.send(within(t), who.in), who.want(a.verb, resource))
					})
				}
			}
		}
		for _, a := range serverRequests {
			t.Run(who.name+"/"+a.name, func(t *testing.T) {
				wantRefusal(t, a.send(within(t), who.in), who.want("admin", "*"))
			})
		}
	}
	after := in.cost(within(t), t)
	if before.Revision != after.Revision || fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("got costs %v after the denied requests, want %v as before", after, before)
	}
}

func TestEachVerbNeedsItsOwnRight(t *testing.T) {
	in := start(t, settings{policy: aliceMay})
	ctx := within(t)
	in.as(t, "alice").awaitLoaded(ctx, t)
	bob := in.as(t, "bob")
	for _, verb := range []string{"get", "list", "watch", "put", "delete", "admin", "metrics"} {
		resource := config
		if verb == "metrics" {
			resource = `"*"`
		}
		in.usePolicy(t, bobMay(verb, resource, ""))
		for _, a := range append(resourceRequests(config, "key", nil), serverRequests...) {
			err := a.send(ctx, bob)
			if err == nil {
				if a.verb != verb {
					t.Errorf("%s succeeds with the right to %s, want PERMISSION_DENIED", a.name, verb)
				}
				continue
			}
			if got := refusalIn(t, err); (got.Reason == apierr.ReasonPermissionDenied) != (a.verb != verb) {
				t.Errorf("%s with the right to %s: got %v; it needs the right to %s", a.name, verb, err, a.verb)
			}
		}
	}
}

func TestRightsOnKeysCoverOnlyTheseKeys(t *testing.T) {
	in := start(t, settings{policy: bobMay("get, list, watch, put, delete", config, ", keys: [k], prefixes: [team/a]")})
	ctx := within(t)
	alice, bob := in.as(t, "alice"), in.as(t, "bob")
	alice.awaitLoaded(ctx, t)
	for _, test := range []struct {
		key     string
		scope   *fanoutv1.Scope
		granted bool
	}{
		{"k", exactly("k"), true},
		{"team/a/x", prefix("team/a"), true},
		{"team/a/x", prefix("team/a/x/"), true},
		{"kk", nil, false},
		{"k/x", prefix("k"), false},
		{"team/a", prefix("team"), false},
		{"team/ab", exactly("team/ab"), false},
	} {
		for _, a := range resourceRequests(config, test.key, test.scope) {
			if a.verb == "admin" || strings.HasPrefix(a.name, "Transact no") {
				continue
			}
			err := a.send(ctx, bob)
			if granted := err == nil || refusalIn(t, err).Reason != apierr.ReasonPermissionDenied; granted != test.granted {
				t.Errorf("%s of %q in %v: got %v, want granted %v", a.name, test.key, test.scope, err, test.granted)
			}
		}
	}
	// One denied operation denies the whole transaction, wherever it stands.
	for verb, operation := range map[string]*fanoutv1.Operation{"put": putOp("x"), "delete": deleteOp("x"), "get": checkOp("x")} {
		wantRefusal(t, transact(putOp("k"), operation, deleteOp("team/a/x"))(ctx, bob, config), denied(verb, config))
	}
	// A malformed scope is an invalid request, not a denied one.
	for _, wrong := range []*fanoutv1.Scope{prefix("team/a//"), prefix(""), exactly("")} {
		_, err := bob.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, Scope: wrong})
		if got := refusalIn(t, err); got.Reason != apierr.ReasonInvalidRequest {
			t.Errorf("scope %v: got %v, want reason %s", wrong, err, apierr.ReasonInvalidRequest)
		}
	}
}

// Without a policy everything is allowed, to anonymous clients as well.
func TestWithoutAPolicyEverythingIsAllowed(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for _, who := range []*instance{in, in.as(t, "bob")} {
		who.awaitLoaded(ctx, t)
		for _, a := range append(resourceRequests(config, "key", nil), serverRequests...) {
			if err := a.send(ctx, who); err != nil {
				if got := refusalIn(t, err); got.Code == codes.PermissionDenied || got.Code == codes.Unauthenticated {
					t.Errorf("%s: got %v, want it allowed", a.name, err)
				}
			}
		}
	}
}

// Health and reflection reveal no data, so the policy does not apply to them.
func TestHealthAndReflectionNeedNoRight(t *testing.T) {
	in := start(t, settings{policy: aliceMay})
	ctx := within(t)
	in.as(t, "alice").awaitLoaded(ctx, t)
	for in.health(ctx, t, "resource/"+config) != healthpb.HealthCheckResponse_SERVING {
	}
	if services := in.as(t, "mallory").services(ctx, t); len(services) == 0 {
		t.Error("got no services, want some")
	}
}
