package server_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/audit"
	"github.com/fanoutd/fanoutd/internal/server/quota"
)

// auditFile is an audit log in a file.
type auditFile struct {
	*audit.Log
	path string
}

func openAudit(t *testing.T) *auditFile {
	t.Helper()
	a := &auditFile{path: filepath.Join(t.TempDir(), "audit.log")}
	var err error
	if a.Log, err = audit.Open(audit.Config{Path: a.path, Log: slog.New(slog.DiscardHandler)}); err != nil {
		t.Fatal(err)
	}
	return a
}

// lines returns the records without the attributes that differ in each run.
func (a *auditFile) lines(t *testing.T) []line {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(a.path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var all []line
	for s := bufio.NewScanner(f); s.Scan(); {
		var l line
		if err := json.Unmarshal(s.Bytes(), &l); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"time", "peer", "user_agent"} {
			if l[name] == nil || l[name] == "" {
				t.Errorf("got record %v, want attribute %s", l, name)
			}
			delete(l, name)
		}
		delete(l, "level")
		all = append(all, l)
	}
	return all
}

func TestWritesAndActionsOfOperatorsAreAudited(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log})
	ctx := within(t)
	put := in.put(ctx, t, config, "a", secret)
	in.list(ctx, t, &fanoutv1.ListRequest{Resource: config}, nothing) // reads are not audited
	removed := in.delete(ctx, t, config, "a")
	_, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Message: "as before", Put: &fanoutv1.PutOperation{
		Key: "a", Value: &fanoutv1.PutOperation_Text{Text: secret}, IfModRevision: new(put),
	}})
	if status.Code(err) != codes.FailedPrecondition {
		t.Fatal(err)
	}
	var operations []*fanoutv1.Operation
	var keys []any
	for i := range maxOperations {
		key := fmt.Sprintf("many/%03d", i)
		operations = append(operations, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: putText(key, secret)}})
		if i < 100 {
			keys = append(keys, key)
		}
	}
	transact, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("/"+strings.Repeat("x", 100_000), secret)}); err == nil {
		t.Fatal("got no error for a bad key, want one")
	}
	operator := fanoutv1.NewAdminServiceClient(in.conn)
	if _, err := operator.ListWatchers(ctx, &fanoutv1.ListWatchersRequest{}); err != nil {
		t.Fatal(err)
	}
	if _, err := operator.EndWatcher(ctx, &fanoutv1.EndWatcherRequest{Id: "nobody"}); err != nil {
		t.Fatal(err)
	}
	// A check writes nothing, and is no record.
	if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("checked", secret), ValidateOnly: true}); err != nil {
		t.Fatal(err)
	}
	in.stop(ctx)

	want := []line{
		{"msg": "write", "method": "fanout.v1.StoreService/Put", "resource": config, "keys": []any{"a"}, "revision": float64(put), "code": "OK"},
		{"msg": "write", "method": "fanout.v1.StoreService/Delete", "resource": config, "keys": []any{"a"}, "revision": float64(removed), "code": "OK"},
		{"msg": "write", "method": "fanout.v1.StoreService/Put", "resource": config, "keys": []any{"a"}, "message": "as before", "code": "FailedPrecondition", "reason": "PRECONDITION_FAILED"},
		{
			"msg": "write", "method": "fanout.v1.StoreService/Transact", "resource": config, "keys": keys, "key_count": float64(maxOperations),
			"revision": float64(transact.GetRevision()), "code": "OK",
		},
		{"msg": "write", "method": "fanout.v1.StoreService/Put", "resource": config, "code": "InvalidArgument", "reason": "INVALID_REQUEST"},
		{"msg": "admin", "method": "fanout.v1.AdminService/EndWatcher", "watcher": "nobody", "code": "OK"},
	}
	got := log.lines(t)
	for _, l := range got {
		if l["code"] == "InvalidArgument" {
			if bad := l["keys"].([]any); len(bad[0].(string)) > 1024 {
				t.Errorf("got a key of %d bytes in the record, want a shortened one", len(bad[0].(string)))
			}
			delete(l, "keys")
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text, err := os.ReadFile(log.path); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("values are in the audit log, or %v", err)
	}
}

// Each page of Reencrypt is one record, whether it succeeds or is refused.
func TestReencryptIsAudited(t *testing.T) {
	k, log := newKeysets(t), openAudit(t)
	in := start(t, settings{audit: log.Log, keys: keyring(t, k.first)})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	for i := range 3 {
		in.put(ctx, t, blobs, fmt.Sprint(i), secret)
	}
	in.reencrypt(ctx, t, blobs, 2)
	_, err := in.admin().Reencrypt(ctx, &fanoutv1.ReencryptRequest{Resource: "nowhere"})
	wantRefusal(t, err, unknownResource("nowhere"))
	in.stop(ctx)
	page := line{"msg": "admin", "method": "fanout.v1.AdminService/Reencrypt", "resource": blobs, "code": "OK"}
	want := []line{page, page, {
		"msg": "admin", "method": "fanout.v1.AdminService/Reencrypt", "resource": "nowhere", "code": "NotFound", "reason": "UNKNOWN_RESOURCE",
	}}
	if diff := cmp.Diff(want, log.lines(t)[3:]); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if text, err := os.ReadFile(log.path); err != nil || strings.Contains(string(text), secret) {
		t.Errorf("values are in the audit log, or %v", err)
	}
}

func TestDenialsAreAudited(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log})
	ctx := within(t)
	in.awaitLoaded(ctx, t)
	in.failWrites(status.Error(codes.PermissionDenied, "not you"))
	if err := in.tryPut(ctx, ""); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	in.failWrites(status.Error(codes.Unauthenticated, "who are you?"))
	if err := in.tryPut(ctx, ""); status.Code(err) != codes.Unauthenticated {
		t.Fatal(err)
	}
	in.stop(ctx)
	want := []line{
		{"msg": "denied", "method": "fanout.v1.StoreService/Put", "resource": config, "keys": []any{"a"}, "code": "PermissionDenied"},
		{"msg": "denied", "method": "fanout.v1.StoreService/Put", "resource": config, "keys": []any{"a"}, "code": "Unauthenticated"},
	}
	if diff := cmp.Diff(want, log.lines(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A client that is denied again and again does not fill the log: most of its denials are
// only counted. Denials of other clients are recorded, with the number left out before.
func TestDenialsOfOneClientDoNotFillTheLog(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log, policy: "rules: []"})
	ctx := within(t)
	const often = 500
	request := &fanoutv1.PutRequest{Resource: config, Put: putText(strings.Repeat("x", 1000), "")}
	alice := in.as(t, "alice")
	for range often {
		if _, err := alice.writes.Put(ctx, request); status.Code(err) != codes.PermissionDenied {
			t.Fatal(err)
		}
	}
	if err := in.as(t, "bob").tryPut(ctx, ""); status.Code(err) != codes.PermissionDenied {
		t.Fatal(err)
	}
	in.stop(ctx)
	recorded, leftOut, bytes := 0, 0, 0
	all := log.lines(t)
	for _, l := range all {
		if n, ok := l["left_out"].(float64); ok {
			leftOut += int(n)
		}
		if l["identity"] == "alice" {
			text, err := json.Marshal(l)
			if err != nil {
				t.Fatal(err)
			}
			recorded, bytes = recorded+1, bytes+len(text)
		}
	}
	if recorded+leftOut != often || recorded == 0 || bytes > 200<<10 {
		t.Errorf("got %d denials recorded in %d bytes and %d left out, of %d", recorded, bytes, leftOut, often)
	}
	if last := all[len(all)-1]; last["identity"] != "bob" {
		t.Errorf("got last record %v, want one of bob", last)
	}
}

// A write that is refused before the policy is checked is recorded as a denial.
func TestRefusedWritesAreAuditedAsDenials(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log, limits: quota.Limits{RequestRate: 0.001, RequestBurst: 1}})
	ctx := within(t)
	for range 3 {
		_ = in.tryPut(ctx, "")
	}
	in.stop(ctx)
	var kinds []any
	for _, l := range log.lines(t) {
		kinds = append(kinds, l["msg"])
	}
	if diff := cmp.Diff([]any{"write", "denied", "denied"}, kinds); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Writes do not wait for the audit log, and they succeed even if it can record nothing.
func TestWritesSucceedWithoutTheAuditLog(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log})
	ctx := within(t)
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	in.put(ctx, t, config, "a", "1")
}

// A watch that loses its right is recorded as a denial, with its user agent, although the
// server does not keep the headers of a request during a watch.
func TestTheEndOfARightIsAudited(t *testing.T) {
	log := openAudit(t)
	in := start(t, settings{audit: log.Log, policy: bobMay("watch", config, "")})
	ctx := within(t)
	in.as(t, "alice").awaitLoaded(ctx, t)
	b := in.as(t, "bob").watch(t.Context(), t, &fanoutv1.WatchRequest{Resource: config}) // without a deadline: with one, the server keeps the headers
	b.catchUp(fanoutv1.WatchResponse_CATCH_UP_RESET)
	in.usePolicy(t, aliceMay)
	b.wantDenied(denied("watch", config))
	in.stop(ctx)
	want := []line{{
		"msg": "denied", "method": "fanout.v1.FanoutService/Watch", "identity": "bob", "authentication": "jwt",
		"resource": config, "code": "PermissionDenied", "reason": "PERMISSION_DENIED",
	}}
	if diff := cmp.Diff(want, log.lines(t)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
