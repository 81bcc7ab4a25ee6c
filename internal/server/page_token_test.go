package server_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// firstPage returns the first page of a list, and the request for the second.
func (in *instance) firstPage(ctx context.Context, t *testing.T, req *fanoutv1.ListRequest) (*fanoutv1.ListResponse, *fanoutv1.ListRequest) {
	t.Helper()
	first, err := in.reads.List(ctx, req)
	if err != nil {
		t.Fatal(err)
	}
	if first.GetNextPageToken() == "" {
		t.Fatal("got a list of one page, want more")
	}
	second := proto.CloneOf(req)
	second.PageToken = first.GetNextPageToken()
	return first, second
}

// forged returns a page token with a part of its content replaced. It depends on the
// encoding of tokens, which is private to the server.
func forged(t *testing.T, token, old, replacement string) string {
	t.Helper()
	content, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(string(content), old, replacement, 1)
	if changed == string(content) {
		t.Fatalf("got token %s, want one that contains %q", content, old)
	}
	return base64.RawURLEncoding.EncodeToString([]byte(changed))
}

func TestListRefusesForeignPageTokens(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for _, resource := range []string{config, blobs} {
		for i := range 3 {
			op := &fanoutv1.PutOperation{Key: fmt.Sprintf("team/%d", i)}
			if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: op}); err != nil {
				t.Fatal(err)
			}
		}
	}
	now := in.revision(ctx, t)
	_, good := in.firstPage(ctx, t, &fanoutv1.ListRequest{Resource: config, Scope: prefix("team"), StartKey: "team/0", PageSize: 1})
	token := good.GetPageToken()

	with := func(change func(*fanoutv1.ListRequest)) *fanoutv1.ListRequest {
		req := proto.CloneOf(good)
		change(req)
		return req
	}
	withToken := func(token string) *fanoutv1.ListRequest {
		return with(func(r *fanoutv1.ListRequest) { r.PageToken = token })
	}
	revision := fmt.Sprintf(`"v":%d`, now)
	testBadRequests(t, in, in.reads.List, []badRequest[fanoutv1.ListRequest]{
		{name: "not base64", request: withToken("*"), want: invalid("page_token")},
		{name: "garbage", request: withToken(base64.RawURLEncoding.EncodeToString([]byte("garbage"))), want: invalid("page_token")},
		{name: "empty object", request: withToken(base64.RawURLEncoding.EncodeToString([]byte("{}"))), want: invalid("page_token")},
		{name: "cut", request: withToken(token[:len(token)/2]), want: invalid("page_token")},
		{name: "twice", request: withToken(token + token), want: invalid("page_token")},
		{name: "negative revision", request: withToken(forged(t, token, `"v":`, `"v":-`)), want: invalid("page_token")},
		{name: "forged scope", request: withToken(forged(t, token, `"s":"team/*"`, `"s":"*"`)), want: invalid("page_token")},
		{name: "another resource", request: with(func(r *fanoutv1.ListRequest) { r.Resource = blobs }), want: invalid("page_token")},
		{name: "another scope", request: with(func(r *fanoutv1.ListRequest) { r.Scope = prefix("team/1") }), want: invalid("page_token")},
		{name: "no scope", request: with(func(r *fanoutv1.ListRequest) { r.Scope = nil }), want: invalid("page_token")},
		{name: "another start key", request: with(func(r *fanoutv1.ListRequest) { r.StartKey = "team/1" }), want: invalid("page_token")},
		{
			name:    "any",
			request: with(func(r *fanoutv1.ListRequest) { r.Consistency = anyRevision() }),
			want:    invalid("consistency"),
		},
		{
			name:    "min_revision",
			request: with(func(r *fanoutv1.ListRequest) { r.Consistency = minRevision(1) }),
			want:    invalid("consistency"),
		},
		{
			name:    "revision in the future",
			request: withToken(forged(t, token, revision, fmt.Sprintf(`"v":%d`, now+1))),
			want:    inFuture(now+1, now), asks: true,
		},
	})

	// Other spellings of the same request are fine, and so is another page size.
	same := with(func(r *fanoutv1.ListRequest) {
		r.Scope = prefix("team/")
		r.PageSize = 2
		r.Consistency = &fanoutv1.ReadConsistency{}
	})
	page, err := in.reads.List(ctx, same)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"team/1", "team/2"}, listed{objects: page.GetObjects()}.keys()); diff != "" {
		t.Errorf("second page, -want +got:\n%s", diff)
	}
}

// wantExpired checks that the token of the second page has expired, and that the token in
// the error continues the list at the current revision.
func (in *instance) wantExpired(ctx context.Context, t *testing.T, second *fanoutv1.ListRequest, asked int64, rest ...string) {
	t.Helper()
	_, err := in.reads.List(ctx, second)
	got := refusalIn(t, err)
	want := refusal{Code: codes.OutOfRange, Reason: apierr.ReasonPageTokenExpired, Metadata: map[string]string{
		"asked_revision":  decimal(asked),
		"oldest_revision": got.Metadata["oldest_revision"],
		"page_token":      got.Metadata["page_token"],
	}}
	wantRefusal(t, err, want)
	if got.Metadata["oldest_revision"] == "" {
		t.Error("got no oldest_revision in the error, want one")
	}

	renewed := proto.CloneOf(second)
	renewed.PageToken = got.Metadata["page_token"]
	all := in.list(ctx, t, renewed, nothing)
	if diff := cmp.Diff(rest, all.keys()); diff != "" {
		t.Errorf("rest of the list, -want +got:\n%s", diff)
	}
	if at, now := all.at.GetRevision(), in.revision(ctx, t); at != now {
		t.Errorf("got the rest of the list at revision %d, want the newest, %d", at, now)
	}
}

// A list continues at its revision while the window or etcd's history has it. After etcd
// has compacted that revision, the token has expired, and the error carries a new one.
func TestExpiredPageTokensComeWithANewOne(t *testing.T) {
	etcd, compact := openEtcdToCompact(t)
	in := startOver(t, etcd, settings{window: cacher.WindowLimits{MaxChanges: 4}})
	ctx := within(t)
	for _, key := range []string{"a", "b", "d"} {
		in.put(ctx, t, config, key, "")
	}
	first, second := in.firstPage(ctx, t, &fanoutv1.ListRequest{Resource: config, PageSize: 2})
	for i := range 5 {
		in.put(ctx, t, config, "c", fmt.Sprint(i))
	}
	in.put(ctx, t, config, "a0", "before the key that the list has reached")
	// A linearizable list waits until the cacher has these writes.
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing)
	old, err := in.reads.List(ctx, second)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.GetPosition(), old.GetPosition(), protocmp.Transform()); diff != "" || len(old.GetObjects()) != 1 || old.GetObjects()[0].GetKey() != "d" {
		t.Errorf("got second page %v, want d at %v", old, first.GetPosition())
	}
	compact(ctx, in.revision(ctx, t))
	in.wantExpired(ctx, t, second, first.GetPosition().GetRevision(), "c", "d")
}

// A page token repeats parts of its request. If these are too long for a status, the error
// carries no new token. Long selectors can cause this, and forged tokens.
func TestExpiredPageTokensThatAreLongComeWithoutANewOne(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for _, key := range []string{"a", "b"} {
		in.put(ctx, t, config, key, "")
	}
	expired := func(req *fanoutv1.ListRequest, old, replacement string) {
		t.Helper()
		first, second := in.firstPage(ctx, t, req)
		second.PageToken = forged(t, second.GetPageToken(), first.GetPosition().GetEpoch(), "another")
		second.PageToken = forged(t, second.GetPageToken(), old, replacement)
		_, err := in.reads.List(ctx, second)
		got := refusalIn(t, err)
		wantRefusal(t, err, refusal{Code: codes.OutOfRange, Reason: apierr.ReasonPageTokenExpired, Metadata: map[string]string{
			"asked_revision": decimal(first.GetPosition().GetRevision()), "oldest_revision": got.Metadata["oldest_revision"],
		}})
	}
	expired(&fanoutv1.ListRequest{Resource: config, PageSize: 1}, `"n":"a`, `"n":"`+strings.Repeat("a", 100<<10))
	labels := "!l"
	for i := 0; len(labels) < 4000; i++ {
		labels += fmt.Sprintf(",!l%060d", i)
	}
	expired(&fanoutv1.ListRequest{Resource: config, PageSize: 1, LabelSelector: labels, FieldSelector: "name!=" + strings.Repeat("x", 3000)}, "another", "yetanother")
}

// A page token of another epoch has expired, whatever its revision is.
func TestPageTokensOfAnotherEpochHaveExpired(t *testing.T) {
	in := start(t, settings{})
	ctx := within(t)
	for _, key := range []string{"a", "b", "c"} {
		in.put(ctx, t, config, key, "")
	}
	first, second := in.firstPage(ctx, t, &fanoutv1.ListRequest{Resource: config, PageSize: 1})
	at, epoch := first.GetPosition().GetRevision(), first.GetPosition().GetEpoch()
	for _, revision := range []int64{1, at, at + 1000} {
		token := forged(t, second.GetPageToken(), epoch, "another")
		token = forged(t, token, fmt.Sprintf(`"v":%d`, at), fmt.Sprintf(`"v":%d`, revision)+" ")
		req := proto.CloneOf(second)
		req.PageToken = token
		in.wantExpired(ctx, t, req, revision, "b", "c")
	}
}
