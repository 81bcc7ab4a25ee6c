package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
	"github.com/fanoutd/fanoutd/internal/server/backend"
	"github.com/fanoutd/fanoutd/internal/store"
	"github.com/fanoutd/fanoutd/test/poll"
)

// unlimited are limits that no test reaches.
var unlimited = history.Limits{Versions: 1 << 20, Age: 1000 * time.Hour, Bytes: 1 << 40}

// historyOf returns the history in a store, as package app does.
func historyOf(records *store.History, ttl bool) *backend.History {
	return &backend.History{
		Recorder: history.NewRecorder(records, ttl), Reader: history.NewReader(records, ttl),
		Pruner: history.NewPruner(records, unlimited, slog.New(slog.DiscardHandler)), Rewrite: records.Rewrite,
	}
}

// entries returns the whole history of a scope, read in pages.
func (in *instance) entries(ctx context.Context, t *testing.T, req *fanoutv1.HistoryRequest) []*fanoutv1.HistoryEntry {
	t.Helper()
	req.Resource = config
	var all []*fanoutv1.HistoryEntry
	for {
		page, err := in.reads.History(ctx, req)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, page.GetEntries()...)
		if page.GetNextPageToken() == "" {
			return all
		}
		req.PageToken = page.GetNextPageToken()
	}
}

func keyScope(key string) *fanoutv1.Scope {
	return &fanoutv1.Scope{Scope: &fanoutv1.Scope_Key{Key: key}}
}

// summary returns an entry as a short text: kind, key, revision, value, author and message.
func summary(e *fanoutv1.HistoryEntry) string {
	kind := strings.TrimPrefix(e.GetKind().String(), "KIND_")
	return strings.TrimSpace(fmt.Sprintf("%s %s %d %s %s %s", kind, e.GetKey(), e.GetRevision(), e.GetObject().GetText(), e.GetAuthor(), e.GetMessage()))
}

func summaries(entries []*fanoutv1.HistoryEntry) []string {
	all := []string{}
	for _, e := range entries {
		all = append(all, summary(e))
	}
	return all
}

func (in *instance) wantHistory(ctx context.Context, t *testing.T, req *fanoutv1.HistoryRequest, want ...string) {
	t.Helper()
	if want == nil {
		want = []string{}
	}
	req.Values = true
	if diff := cmp.Diff(want, summaries(in.entries(ctx, t, req))); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
}

// everyHistory runs a test with a cached and an uncached resource that has a history.
func everyHistory(t *testing.T, with settings, test func(ctx context.Context, t *testing.T, in *instance)) {
	t.Parallel()
	for name, uncached := range map[string]bool{"cached": false, "uncached": true} {
		t.Run(name, func(t *testing.T) {
			with := with
			with.history, with.uncached = true, uncached
			test(within(t), t, startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), with))
		})
	}
}

// A history up to a revision or a time that does not exist yet would change with the next write.
func TestHistoryDoesNotReachIntoTheFuture(t *testing.T) {
	everyHistory(t, settings{}, func(ctx context.Context, t *testing.T, in *instance) {
		resp, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "1")})
		if err != nil {
			t.Fatal(err)
		}
		now := resp.GetRevision()
		for _, scope := range []*fanoutv1.Scope{keyScope("a"), keyScope("none"), nil} {
			_, err := in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Scope: scope, Begin: &fanoutv1.HistoryRequest_Revision{Revision: now}})
			if err != nil {
				t.Error(err)
			}
			_, err = in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Scope: scope, Begin: &fanoutv1.HistoryRequest_Revision{Revision: now + 1}})
			wantRefusal(t, err, inFuture(now+1, now))
			at := func(ahead time.Duration) *fanoutv1.HistoryRequest_Time {
				return &fanoutv1.HistoryRequest_Time{Time: timestamppb.New(time.Now().Add(ahead))}
			}
			if _, err := in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Scope: scope, Begin: at(time.Second)}); err != nil {
				t.Errorf("the clock of the client is a little ahead: %v", err)
			}
			_, err = in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Scope: scope, Begin: at(time.Hour)})
			wantRefusal(t, err, invalid("time"))
		}
	})
}

func TestHistoryShowsWhoWroteWhatWhenAndWhy(t *testing.T) {
	in := start(t, settings{history: true, policy: bobMay("put, delete, get", config, "")})
	ctx := within(t)
	began := time.Now().Add(-time.Millisecond)
	as := func(name string) (fanoutv1.StoreServiceClient, *instance) {
		conn := dial(t, in.address, grpc.WithPerRPCCredentials(bearer(name)))
		other := *in
		other.reads, other.writes = fanoutv1.NewFanoutServiceClient(conn), fanoutv1.NewStoreServiceClient(conn)
		return other.writes, &other
	}
	alice, in := as("alice")
	bob, _ := as("bob")
	must := func(at int64, err error) int64 {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	put := func(who fanoutv1.StoreServiceClient, key, text, message string) int64 {
		t.Helper()
		resp, err := who.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText(key, text), Message: message})
		return must(resp.GetRevision(), err)
	}
	first := put(alice, "app/limits", "1", "")
	second := put(bob, "app/limits", "2", "more traffic\nin the evening")
	other := put(alice, "app", "x", "")
	both, err := bob.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Message: "both", Operations: []*fanoutv1.Operation{
		deleteOp("app/limits"), putOp("app/name"), checkOp2("app", other),
	}})
	third := must(both.GetRevision(), err)

	limits := []string{
		fmt.Sprintf("DELETE app/limits %d  bob both", third),
		fmt.Sprintf("PUT app/limits %d 2 bob more traffic\nin the evening", second),
		fmt.Sprintf("PUT app/limits %d 1 alice", first),
	}
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("app/limits")}, limits...)
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("app/limits"), PageSize: 1}, limits...)
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("app/limits"), Begin: &fanoutv1.HistoryRequest_Revision{Revision: third - 1}}, limits[1:]...)
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("nothing")})

	below := []string{limits[0], fmt.Sprintf("PUT app/name %d x bob both", third), limits[1], limits[2]}
	prefix := &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "app"}}
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: prefix}, below...)
	all := slices.Insert(slices.Clone(below), 2, fmt.Sprintf("PUT app %d x alice", other))
	for _, size := range []int32{0, 1, 2, 3} {
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{PageSize: size}, all...)
	}
	entries := in.entries(ctx, t, &fanoutv1.HistoryRequest{})
	for i, e := range entries {
		if at := e.GetTime().AsTime(); at.Before(began) || at.After(time.Now()) {
			t.Errorf("%s: got time %v", summary(e), at)
		}
		if e.GetObject() != nil {
			t.Errorf("%s has a value that was not asked for", summary(e))
		}
		want := int32(1)
		if i < 2 {
			want = 2
		}
		if e.GetTransactionWrites() != want {
			t.Errorf("%s: got %d writes of its transaction, want %d", summary(e), e.GetTransactionWrites(), want)
		}
	}

	// A time means one revision.
	at := entries[2].GetTime()
	page, err := in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Begin: &fanoutv1.HistoryRequest_Time{Time: at}})
	if err != nil {
		t.Fatal(err)
	}
	if got := page.GetRevision(); got < other {
		t.Errorf("the time of revision %d means %d", other, got)
	}
	page, err = in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Begin: &fanoutv1.HistoryRequest_Time{Time: timestamppb.New(began.Add(-time.Hour))}})
	if err != nil || page.GetRevision() != 0 || len(page.GetEntries()) > 0 {
		t.Errorf("got %v, %v, want nothing before the first write", page, err)
	}

	// Get returns the last change.
	got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "app/name", LastChange: true})
	if last := got.GetLastChange(); err != nil || last.GetAuthor() != "bob" || last.GetMessage() != "both" || !last.GetTime().AsTime().Equal(entries[1].GetTime().AsTime()) {
		t.Errorf("got last change %v, %v", got.GetLastChange(), err)
	}

	// Reading it needs a right of its own.
	_, bobs := as("bob")
	_, err = bobs.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: config, Scope: keyScope("app")})
	wantRefusal(t, err, denied("history", config))
	_, err = bobs.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "app", LastChange: true})
	wantRefusal(t, err, denied("history", config))
}

func checkOp2(key string, modRevision int64) *fanoutv1.Operation {
	return &fanoutv1.Operation{Operation: &fanoutv1.Operation_Check{Check: &fanoutv1.CheckOperation{Key: key, ModRevision: &modRevision}}}
}

// foreignPut stores a value as another program does, with a time to live if there is one. It returns the
// revision.
func (in *instance) foreignPut(ctx context.Context, t *testing.T, key, text string, ttl ...time.Duration) int64 {
	t.Helper()
	codec, err := object.CodecByName(codecOf[config])
	if err != nil {
		t.Fatal(err)
	}
	value, refusal := object.Encode(codec, object.Content{Value: []byte(text)}, true)
	if refusal != nil {
		t.Fatal(refusal)
	}
	op := object.Op{Kind: object.OpPut, Key: object.Key(key), Value: value}
	for _, op.TTL = range ttl {
	}
	commit, err := in.collections[config].Commit(ctx, []object.Op{op})
	if err != nil {
		t.Fatal(err)
	}
	return int64(commit.Revision)
}

func (in *instance) foreignDelete(ctx context.Context, t *testing.T, key string) {
	t.Helper()
	if _, err := in.collections[config].Commit(ctx, []object.Op{{Kind: object.OpDelete, Key: object.Key(key)}}); err != nil {
		t.Fatal(err)
	}
}

// A gap is where another program wrote, and the values that writes replace are kept.
func TestHistoryShowsWhatOtherProgramsWrote(t *testing.T) {
	everyHistory(t, settings{}, func(ctx context.Context, t *testing.T, in *instance) {
		old := in.foreignPut(ctx, t, "a", "old")
		one := in.put(ctx, t, config, "a", "one")
		two := in.put(ctx, t, config, "a", "two")
		in.foreignPut(ctx, t, "a", "foreign")
		foreign := in.foreignPut(ctx, t, "a", "foreign again")
		want := []string{
			fmt.Sprintf("PUT a %d two", two),
			fmt.Sprintf("PUT a %d one", one),
			fmt.Sprintf("EARLIER a %d old", old),
		}
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{}, slices.Insert(slices.Clone(want), 0, fmt.Sprintf("GAP a %d", foreign))...)

		three := in.put(ctx, t, config, "a", "three")
		want = slices.Insert(want, 0, fmt.Sprintf("PUT a %d three", three), fmt.Sprintf("GAP a %d foreign again", foreign))
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{}, want...)

		in.foreignDelete(ctx, t, "a")
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{}, slices.Insert(slices.Clone(want), 0, "GAP a 0")...)
		got, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", LastChange: true})
		if err == nil {
			t.Errorf("got %v, want an error: the key was deleted", got)
		}
		four := in.put(ctx, t, config, "a", "four")
		want = slices.Insert(want, 0, fmt.Sprintf("PUT a %d four", four), "GAP a 0")
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("a"), PageSize: 1}, want...)
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{}, want...)

		// An object of another program has no last change.
		in.foreignPut(ctx, t, "a", "foreign")
		got, err = in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a", LastChange: true})
		if err != nil || got.GetLastChange() != nil {
			t.Errorf("got last change %v, %v, want none", got.GetLastChange(), err)
		}
	})
}

// An object that another program wrote with a time to live is a gap, unless the history has left out such
// objects before.
func TestHistoryShowsObjectsWithATimeToLiveOfOtherPrograms(t *testing.T) {
	everyHistory(t, settings{}, func(ctx context.Context, t *testing.T, in *instance) {
		one := in.put(ctx, t, config, "a", "one")
		at := in.foreignPut(ctx, t, "a", "foreign", time.Hour)
		want := []string{fmt.Sprintf("GAP a %d", at), fmt.Sprintf("PUT a %d one", one)}
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("a")}, want...)
		two := in.put(ctx, t, config, "a", "two")
		want[0] = fmt.Sprintf("GAP a %d foreign", at)
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("a")}, slices.Insert(want, 0, fmt.Sprintf("PUT a %d two", two))...)

		long := func(key string) int64 {
			put := putText(key, "long")
			put.Ttl = durationpb.New(time.Hour)
			resp, err := in.writes.Put(ctx, putOf(config, put))
			if err != nil {
				t.Fatal(err)
			}
			return resp.GetRevision()
		}
		one = in.put(ctx, t, config, "b", "one")
		at = long("b")
		long("b")
		want = []string{fmt.Sprintf("PUT b %d", at), fmt.Sprintf("PUT b %d one", one)}
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("b")}, want...)
		two = in.put(ctx, t, config, "b", "two")
		gone := in.delete(ctx, t, config, "b")
		want = slices.Insert(want, 0, fmt.Sprintf("DELETE b %d", gone), fmt.Sprintf("PUT b %d two", two))
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("b")}, want...)
		long("b")
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("b")}, want...)
		three := in.put(ctx, t, config, "b", "three")
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("b")}, slices.Insert(want, 0, fmt.Sprintf("PUT b %d three", three))...)
	})
}

// A delete that removes nothing leaves no record, nor does a write that is refused.
func TestHistoryHasOnlyWhatWasWritten(t *testing.T) {
	everyHistory(t, settings{}, func(ctx context.Context, t *testing.T, in *instance) {
		if _, err := in.writes.Delete(ctx, &fanoutv1.DeleteRequest{Resource: config, Delete: &fanoutv1.DeleteOperation{Key: "a"}}); err != nil {
			t.Fatal(err)
		}
		conditional := putText("a", "1")
		conditional.IfModRevision = new(int64(7))
		if _, err := in.writes.Put(ctx, putOf(config, conditional)); err == nil {
			t.Error("a put with a wrong precondition was applied")
		}
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{})

		// An opaque object is deleted as without a history, and replaced only on request.
		at := in.commit(ctx, t, config, "b", []byte(foreign[config]))
		_, err := in.writes.Put(ctx, putOf(config, putText("b", "1")))
		wantRefusal(t, err, opaque("b", at))
		replaced := in.overwrite(ctx, t, config, "b", "1")
		deleted := in.delete(ctx, t, config, "b")
		in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{},
			fmt.Sprintf("DELETE b %d", deleted), fmt.Sprintf("PUT b %d 1", replaced), fmt.Sprintf("EARLIER b %d %s", at, foreign[config]))
	})
}

// Objects with a time to live are recorded only on request. Their ends are no gaps.
func TestHistoryShowsExpiries(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	for name, recorded := range map[string]bool{"recorded": true, "not recorded": false} {
		t.Run(name, func(t *testing.T) {
			everyHistory(t, settings{historyTTL: recorded}, func(ctx context.Context, t *testing.T, in *instance) {
				short := func(key string) int64 {
					put := putText(key, "short")
					put.Ttl = durationpb.New(time.Second)
					resp, err := in.writes.Put(ctx, putOf(config, put))
					if err != nil {
						t.Fatal(err)
					}
					poll.Until(t, "the object has expired", func() bool {
						_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: key})
						return err != nil
					})
					return resp.GetRevision()
				}
				fresh := short("fresh")
				long := in.put(ctx, t, config, "replaced", "long")
				replaced := short("replaced")
				next := in.put(ctx, t, config, "replaced", "next")
				if recorded {
					in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("fresh")}, "EXPIRED fresh 0", fmt.Sprintf("PUT fresh %d short", fresh))
					in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("replaced")},
						fmt.Sprintf("PUT replaced %d next", next), "EXPIRED replaced 0", fmt.Sprintf("PUT replaced %d short", replaced), fmt.Sprintf("PUT replaced %d long", long))
				} else {
					in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("fresh")})
					in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("replaced")},
						fmt.Sprintf("PUT replaced %d next", next), fmt.Sprintf("PUT replaced %d", replaced), fmt.Sprintf("PUT replaced %d long", long))
				}
			})
		})
	}
}

// A transaction with as many operations as a request may have is recorded.
func TestHistoryRecordsTheLargestTransaction(t *testing.T) {
	in := start(t, settings{history: true})
	ctx := within(t)
	var operations []*fanoutv1.Operation
	for i := range maxOperations {
		operations = append(operations, putOp(fmt.Sprintf("k%03d", i)))
	}
	for range 2 {
		if _, err := in.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: config, Operations: operations}); err != nil {
			t.Fatal(err)
		}
	}
	if got := in.entries(ctx, t, &fanoutv1.HistoryRequest{PageSize: 100}); len(got) != 2*maxOperations || got[0].GetTransactionWrites() != maxOperations {
		t.Errorf("got %d entries", len(got))
	}
}

// A value that does not fit into a request together with its record is refused before anything is
// stored, and the error names the setting.
func TestHistoryRefusesValuesThatAreTooLarge(t *testing.T) {
	in := start(t, settings{history: true})
	ctx := within(t)
	_, err := in.writes.Put(ctx, putOf(config, putText("a", strings.Repeat("x", maxValueBytes))))
	got := refusalIn(t, err)
	if got.Code != codes.InvalidArgument || got.Reason != apierr.ReasonWriteTooLarge || !strings.Contains(err.Error(), "setting history") {
		t.Errorf("got %v", err)
	}
	// The largest value that fits replaces another one that the history does not have.
	large := strings.Repeat("y", 700<<10)
	in.foreignPut(ctx, t, "a", large)
	in.put(ctx, t, config, "a", large)
	entries := in.entries(ctx, t, &fanoutv1.HistoryRequest{Values: true})
	if len(entries) != 2 || entries[0].GetObject().GetText() != large || entries[1].GetObject() != nil {
		t.Errorf("got %d entries, want the value, and an earlier one without a value", len(entries))
	}
	if _, err := in.writes.Put(ctx, &fanoutv1.PutRequest{Resource: config, Put: putText("a", "1"), Message: strings.Repeat("m", 1025)}); refusalIn(t, err).Reason != apierr.ReasonInvalidRequest {
		t.Errorf("got %v for a long message", err)
	}
	if _, err := in.reads.History(ctx, &fanoutv1.HistoryRequest{Resource: documents}); refusalIn(t, err).Reason != apierr.ReasonNoHistory {
		t.Errorf("got %v for a resource without a history", err)
	}
}

// Reencrypt covers the history, and what it changes is no gap.
func TestHistoryIsReencrypted(t *testing.T) {
	etcd, keys := openEtcd(t, 0), newKeysets(t)
	ctx := within(t) // it begins once this test has its turn
	ring := crypt.NewKeyring(slog.New(slog.DiscardHandler))
	use := func(keyset []byte) {
		t.Helper()
		if err := ring.Use(keyset); err != nil {
			t.Fatal(err)
		}
	}
	use(keys.first)
	in := startOver(t, etcd, settings{history: true, keys: ring})
	one := in.put(ctx, t, config, "a", "one")
	two := in.put(ctx, t, config, "a", "two")
	in.put(ctx, t, config, "b", "b")
	gone := in.delete(ctx, t, config, "b")
	use(keys.promoted)
	for range 2 {
		req := &fanoutv1.ReencryptRequest{Resource: config}
		for more := true; more; {
			resp, err := fanoutv1.NewAdminServiceClient(in.conn).Reencrypt(ctx, req)
			if err != nil {
				t.Fatal(err)
			}
			req.PageToken = resp.GetNextPageToken()
			more = req.GetPageToken() != ""
		}
	}
	use(keys.second)
	want := []string{fmt.Sprintf("PUT a %d two", two), fmt.Sprintf("PUT a %d one", one)}
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("a")}, want...)
	three := in.put(ctx, t, config, "a", "three")
	want = slices.Insert(want, 0, fmt.Sprintf("PUT a %d three", three))
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("a")}, want...)
	if got := in.entries(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope("b")}); len(got) != 2 || got[0].GetRevision() != gone {
		t.Errorf("got %v", summaries(got))
	}
}

// PurgeHistory removes old values, wherever they are.
func TestPurgeRemovesOldValues(t *testing.T) {
	in := start(t, settings{history: true, policy: bobMay("history, admin", config, "")})
	ctx := within(t)
	conn := dial(t, in.address, grpc.WithPerRPCCredentials(bearer("alice")))
	in.reads, in.writes = fanoutv1.NewFanoutServiceClient(conn), fanoutv1.NewStoreServiceClient(conn)
	in.foreignPut(ctx, t, "a", "secret")
	in.put(ctx, t, config, "a", "good")
	in.put(ctx, t, config, "a", "secret")
	in.foreignPut(ctx, t, "a", "secret")
	last := in.put(ctx, t, config, "a", "good")
	other := in.put(ctx, t, config, "ab", "other")

	req := &fanoutv1.PurgeHistoryRequest{Resource: config, Key: "a"}
	_, err := fanoutv1.NewAdminServiceClient(dial(t, in.address, grpc.WithPerRPCCredentials(bearer("bob")))).PurgeHistory(ctx, req)
	wantRefusal(t, err, denied("purge", config))
	resp, err := fanoutv1.NewAdminServiceClient(conn).PurgeHistory(ctx, req)
	if err != nil || resp.GetRemoved() != 2 {
		t.Errorf("got %v, %v, want 2 records removed", resp, err)
	}
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{},
		fmt.Sprintf("PUT ab %d other alice", other), fmt.Sprintf("PUT a %d good alice", last), fmt.Sprintf("GAP a %d", last-1))
}

// The record of the last write stays only while its value is the present one.
func TestPurgeRemovesTheLastValueOfAnObjectThatIsGone(t *testing.T) {
	in := start(t, settings{history: true})
	ctx := within(t)
	in.put(ctx, t, config, "gone", "secret")
	in.foreignDelete(ctx, t, "gone")
	in.put(ctx, t, config, "replaced", "secret")
	in.foreignPut(ctx, t, "replaced", "foreign")
	in.put(ctx, t, config, "deleted", "secret")
	deleted := in.delete(ctx, t, config, "deleted")
	for key, want := range map[string]int64{"gone": 1, "replaced": 1, "deleted": 1} {
		resp, err := fanoutv1.NewAdminServiceClient(in.conn).PurgeHistory(ctx, &fanoutv1.PurgeHistoryRequest{Resource: config, Key: key})
		if err != nil || resp.GetRemoved() != want {
			t.Errorf("%s: got %v, %v, want %d records removed", key, resp, err, want)
		}
	}
	in.wantHistory(ctx, t, &fanoutv1.HistoryRequest{}, fmt.Sprintf("DELETE deleted %d", deleted))
}

// The pruner keeps what the limits allow, and always the last two writes of an object that exists.
func TestPrunerKeepsTheLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	const writes = 10
	large := strings.Repeat("x", 10_000)
	for name, c := range map[string]struct {
		limits history.Limits
		later  time.Duration
		kept   map[string]int
	}{
		"versions": {history.Limits{Versions: 4, Age: time.Hour, Bytes: 1 << 30}, 0, map[string]int{"a": 4, "b": 2, "gone": 4}},
		"age":      {history.Limits{Versions: 100, Age: time.Hour, Bytes: 1 << 30}, 2 * time.Hour, map[string]int{"a": 2, "b": 2, "gone": 0}},
		"bytes":    {history.Limits{Versions: 100, Age: time.Hour, Bytes: 1}, time.Minute, map[string]int{"a": 2, "b": 2, "gone": 0}},
		"nothing":  {history.Limits{Versions: 100, Age: time.Hour, Bytes: 1 << 30}, 0, map[string]int{"a": writes, "b": 2, "gone": writes}},
	} {
		t.Run(name, func(t *testing.T) {
			in := start(t, settings{history: true})
			ctx := within(t)
			for range writes - 1 {
				in.put(ctx, t, config, "a", large)
				in.put(ctx, t, config, "gone", large)
			}
			in.put(ctx, t, config, "a", large)
			in.delete(ctx, t, config, "gone")
			in.put(ctx, t, config, "b", "1")
			in.put(ctx, t, config, "b", "2")
			records := in.etcd.Collection(config, "/test/"+config+"/", crypt.NewKeyring(slog.New(slog.DiscardHandler)).Values(false)).KeepHistory()
			pruner := history.NewPruner(records, c.limits, slog.New(slog.DiscardHandler))
			for range 2 {
				if err := pruner.Prune(ctx, time.Now().Add(c.later)); err != nil {
					t.Fatal(err)
				}
			}
			counts := pruner.Counts()
			for _, n := range c.kept {
				counts.Records -= n
			}
			if counts.Records != 0 || counts.Bytes == 0 || (counts.Removed == 0) != (name == "nothing") {
				t.Errorf("got counts %+v of %v", pruner.Counts(), c.kept)
			}
			for key, want := range c.kept {
				if got := in.entries(ctx, t, &fanoutv1.HistoryRequest{Scope: keyScope(key)}); len(got) != want {
					t.Errorf("%s: got %d entries, want %d", key, len(got), want)
				}
			}
			total := 0
			for _, n := range c.kept {
				total += n
			}
			if got := in.entries(ctx, t, &fanoutv1.HistoryRequest{}); len(got) != total {
				t.Errorf("the index has %d entries, want %d", len(got), total)
			}
		})
	}
}
