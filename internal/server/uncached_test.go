package server_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/store"
)

// transcript records the answers that a client received, in the order of its requests.
type transcript struct {
	subscribes bool // the watches are those of a Subscribe stream
	in         *instance
	answers    []proto.Message
	refusals   map[string]refusal
}

func (tr *transcript) list(ctx context.Context, t *testing.T, req *fanoutv1.ListRequest) *fanoutv1.ListResponse {
	t.Helper()
	req.Resource = config
	resp, err := tr.in.reads.List(ctx, req)
	if err != nil {
		t.Fatalf("%v: %v", req, err)
	}
	same := proto.CloneOf(resp)
	same.RemainingCount = nil // depends on whether there is a cache
	if same.GetNextPageToken() != "" {
		same.NextPageToken = "more"
	}
	tr.answers = append(tr.answers, same)
	return resp
}

func (tr *transcript) refused(t *testing.T, name string, err error) {
	t.Helper()
	r := refusalIn(t, err)
	if r.Metadata["current_epoch"] != "" {
		r.Metadata["current_epoch"] = "current" // each server has its own
	}
	tr.refusals[name] = r
}

// watch records messages of the given kinds, in this order, and then ends the watch. It
// calls between before it waits for the first live message.
func (tr *transcript) watch(ctx context.Context, t *testing.T, req *fanoutv1.WatchRequest, between func(), kinds ...fanoutv1.WatchResponse_Kind) {
	t.Helper()
	req.Resource = config
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	w := tr.in.watch(ctx, t, req)
	for _, kind := range kinds {
		if kind == fanoutv1.WatchResponse_KIND_LIVE && between != nil {
			between()
			between = nil
		}
		m := w.next(kind)
		if kind == kindPart {
			// The position of a part may differ; that of SYNCED may not.
			m.Position.Revision = 0
		}
		tr.answers = append(tr.answers, m)
	}
}

// watchRefused records why a watch is refused, or why it ends before its first message.
func (tr *transcript) watchRefused(ctx context.Context, t *testing.T, name string, req *fanoutv1.WatchRequest) {
	t.Helper()
	if req.GetResource() == "" {
		req.Resource = config
	}
	_, err := firstMessage(tr.in)(ctx, req)
	tr.refused(t, "watch/"+name, err)
}

const (
	kindBegin  = fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN
	kindPart   = fanoutv1.WatchResponse_KIND_CATCH_UP_PART
	kindSynced = fanoutv1.WatchResponse_KIND_SYNCED
	kindLive   = fanoutv1.WatchResponse_KIND_LIVE
	kindMark   = fanoutv1.WatchResponse_KIND_BOOKMARK
)

// scenario sends requests of every kind and records the answers.
func (tr *transcript) scenario(ctx context.Context, t *testing.T) {
	in := tr.in
	first := in.putLabelled(t, "a/1", "one", "prod")
	in.putLabelled(t, "a/2", "two", "test")
	in.put(ctx, t, config, "b", "three")
	in.delete(ctx, t, config, "b")
	last := in.putLabelled(t, "a/2", "two", "prod")

	tr.list(ctx, t, &fanoutv1.ListRequest{})
	tr.list(ctx, t, &fanoutv1.ListRequest{Scope: prefix("a"), LabelSelector: "env=prod"})
	tr.list(ctx, t, &fanoutv1.ListRequest{StartKey: "a/2", Consistency: exactRevision(last - 2)})
	page := tr.list(ctx, t, &fanoutv1.ListRequest{PageSize: 1})
	in.put(ctx, t, config, "a/3", "later")
	tr.list(ctx, t, &fanoutv1.ListRequest{PageSize: 1, PageToken: page.GetNextPageToken()})
	for name, key := range map[string]string{"there": "a/1", "not there": "b"} {
		resp, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: key})
		if err != nil {
			tr.refused(t, name, err)
			continue
		}
		tr.answers = append(tr.answers, resp)
	}
	_, err := in.reads.Get(ctx, &fanoutv1.GetRequest{Resource: config, Key: "a/1", Consistency: exactRevision(1 << 40)})
	tr.refused(t, "future", err)
	for name, revision := range map[string]int64{"page of the future": last + 1000, "page of revision 0": 0} {
		token := forged(t, page.GetNextPageToken(), fmt.Sprintf(`"v":%d`, page.GetPosition().GetRevision()), fmt.Sprintf(`"v":%d`, revision))
		_, err = in.reads.List(ctx, &fanoutv1.ListRequest{Resource: config, PageSize: 1, PageToken: token})
		tr.refused(t, name, err)
	}

	epoch := in.epoch(ctx, t)
	at := after(&fanoutv1.Position{Epoch: epoch, Revision: first})
	tr.watch(ctx, t, &fanoutv1.WatchRequest{}, func() { in.put(ctx, t, config, "c", "1") }, kindBegin, kindPart, kindSynced, kindLive)
	tr.watch(ctx, t, &fanoutv1.WatchRequest{Begin: at, LabelSelector: "env=prod"}, nil, kindBegin, kindPart, kindSynced)
	tr.watch(ctx, t, &fanoutv1.WatchRequest{Begin: at, Scope: exactly("a/2"), PreviousObject: true, OmitValues: true}, nil, kindBegin, kindPart, kindSynced)
	tr.watch(ctx, t, &fanoutv1.WatchRequest{Begin: fromNow(), Scope: exactly("c"), PreviousObject: true}, func() { in.delete(ctx, t, config, "c") }, kindMark, kindLive)
	tr.watch(ctx, t, &fanoutv1.WatchRequest{Begin: fromNow(), Scope: exactly("none"), BookmarkInterval: durationpb.New(200 * time.Millisecond)}, nil, kindMark, kindMark)
	tr.watch(ctx, t, &fanoutv1.WatchRequest{Begin: after(&fanoutv1.Position{Epoch: "other", Revision: 5}), Scope: prefix("a")}, nil, kindBegin, kindPart, kindSynced)
	kinds := []fanoutv1.WatchResponse_Kind{kindBegin, kindPart, kindSynced}
	if !tr.subscribes { // a stream may send what comes after SYNCED as a REPLAY
		kinds = append(kinds, kindLive)
	}
	tr.watch(ctx, t, &fanoutv1.WatchRequest{Consistency: exactRevision(last)}, nil, kinds...)

	other := after(&fanoutv1.Position{Epoch: "other", Revision: 5})
	tr.watchRefused(ctx, t, "unknown resource", &fanoutv1.WatchRequest{Resource: "unknown"})
	tr.watchRefused(ctx, t, "empty key", &fanoutv1.WatchRequest{Scope: exactly("")})
	tr.watchRefused(ctx, t, "selector", &fanoutv1.WatchRequest{LabelSelector: "env in prod"})
	tr.watchRefused(ctx, t, "two faults", &fanoutv1.WatchRequest{Scope: prefix("/"), Consistency: minRevision(-1)})
	tr.watchRefused(ctx, t, "future", &fanoutv1.WatchRequest{Begin: after(&fanoutv1.Position{Epoch: epoch, Revision: 1 << 40})})
	tr.watchRefused(ctx, t, "exact future", &fanoutv1.WatchRequest{Consistency: exactRevision(1 << 40)})
	tr.watchRefused(ctx, t, "every event of another epoch", &fanoutv1.WatchRequest{Begin: other, EveryEvent: true})
}

// alike compares answers of two servers. Their epochs differ. On a busy machine, what one of them knows of etcd may be
// so old that it states the age.
var alike = cmp.Options{
	protocmp.Transform(),
	protocmp.FilterField(&fanoutv1.Position{}, "epoch", cmp.Comparer(func(a, b any) bool { return true })),
	protocmp.IgnoreFields(&fanoutv1.WatchResponse{}, "age"),
}

func TestResourcesWithAndWithoutACacheAnswerAlike(t *testing.T) {
	t.Parallel()
	transcripts := map[bool]*transcript{}
	for _, uncached := range []bool{false, true} {
		t.Run(fmt.Sprint("uncached ", uncached), func(t *testing.T) {
			in := startOver(t, openEtcdAlone(t, store.EmbeddedConfig{}), settings{uncached: uncached})
			transcripts[uncached] = &transcript{in: in, refusals: map[string]refusal{}}
			transcripts[uncached].scenario(within(t), t)
		})
	}
	if t.Failed() {
		return
	}
	withCache, without := transcripts[false], transcripts[true]
	if diff := cmp.Diff(withCache.refusals, without.refusals); diff != "" {
		t.Errorf("refusals, -with a cache +without:\n%s", diff)
	}
	for i := range withCache.answers {
		if diff := cmp.Diff(withCache.answers[i], without.answers[i], alike); diff != "" {
			t.Errorf("answer %d, -with a cache +without:\n%s", i, diff)
		}
	}
}
