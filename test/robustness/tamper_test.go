package robustness

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap/zaptest"
)

// TestTamperedHistoriesAreNotClean changes one thing in a clean recording, and checks
// that the validator notices it.
func TestTamperedHistoriesAreNotClean(t *testing.T) {
	rec := record(t, options{seed: 1, duration: 3 * time.Second, members: 1, prepare: ownRecord})
	if err := rec.validate(t); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		tamper func(*testing.T, *recording)
		want   string // part of the validator's error
	}{
		{"an event is missing", dropEvent, "broke Reliable"},
		{"the first event after a resume is missing", dropFirstEvent, "broke Resumable"},
		{"an event is repeated", repeatEvent, "broke Unique"},
		{"two events are swapped", swapEvents, "broke Ordered"},
		{"a revision is split", tearRevision, "broke Atomic"},
		{"an event comes after its bookmark", bookmarkEarly, "broke Bookmarkable"},
		{"an event has another value", changeValue, "broke Reliable"},
		{"a creation is marked as a change", denyCreation, "incorrect event IsCreate"},
		{"an event has another key", changeKey, "not matching watch filter"},
		{"a read is stale", staleRead, "linearization: Failure: illegal"},
		{"a missing write", forgetWrite, "linearization: Failure: illegal"},
		{"a missing deletion", forgetDeletion, "linearization: Failure: illegal"},
		{"a failed precondition becomes a success", denyRefusal, "linearization: Failure: illegal"},
		{"an object is missing in a snapshot", dropObject, "states: serializable"},
		{"a watch runs ahead of etcd", inventEvent, "the validator panicked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tampered := rec.clone(t)
			c.tamper(t, tampered)
			if err := tampered.validate(t); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want an error with %q", err, c.want)
			}
		})
	}
	t.Run("the reports lack fanoutd's own writes", func(t *testing.T) {
		result := validate.ValidateAndReturnVisualize(zaptest.NewLogger(t, quiet), validate.Config{}, rec.reports, rec.persisted, validationTimeout)
		if err := result.Linearization.Error(); err == nil {
			t.Error("the validator accepted a revision without a write")
		}
	})
	// A missing answer is not an error: the log has the outcome of the request.
	t.Run("answers are lost", func(t *testing.T) {
		tampered := rec.clone(t)
		loseAnswers(tampered)
		if err := tampered.validate(t); err != nil {
			t.Error(err)
		}
	})
}

// ownRecord writes a key as fanoutd might for itself, and makes a transaction that
// fails and is visible only in the log.
func ownRecord(ctx context.Context, client *clientv3.Client) error {
	const key = "of-the-server"
	unlikely := clientv3.Compare(clientv3.ModRevision(key), "=", 1_000_000)
	for range 30 {
		if _, err := client.Txn(ctx).If(unlikely).Then(clientv3.OpPut(key, "")).Commit(); err != nil {
			return err
		}
	}
	_, err := client.Put(ctx, key, "1")
	return err
}

// clone returns a copy that the caller may change.
func (r *recording) clone(t *testing.T) *recording {
	c := *r
	c.dir = t.TempDir()
	c.states = slices.Clone(r.states)
	c.reports = slices.Clone(r.reports)
	for i := range c.reports {
		report := &c.reports[i]
		report.KeyValue, report.Watch = slices.Clone(report.KeyValue), slices.Clone(report.Watch)
		for j := range report.Watch {
			watch := &report.Watch[j]
			watch.Responses = slices.Clone(watch.Responses)
			for k := range watch.Responses {
				watch.Responses[k].Events = slices.Clone(watch.Responses[k].Events)
			}
		}
	}
	return &c
}

// responses returns the responses of the longest watch of the whole resource. It has
// events of all kinds.
func (r *recording) responses(t *testing.T) *[]model.WatchResponse {
	t.Helper()
	var longest *[]model.WatchResponse
	for i := range r.reports {
		for j := range r.reports[i].Watch {
			watch := &r.reports[i].Watch[j]
			if watch.Request.Key == prefix && (longest == nil || len(watch.Responses) > len(*longest)) {
				longest = &watch.Responses
			}
		}
	}
	if longest == nil {
		t.Fatal("no watcher watched the whole resource")
	}
	return longest
}

// find returns the index of the first response that satisfies wanted and is neither the
// first nor the last response.
func find(t *testing.T, responses []model.WatchResponse, wanted func(model.WatchResponse) bool) int {
	t.Helper()
	for i := 2; i < len(responses)-2; i++ {
		if wanted(responses[i]) {
			return i
		}
	}
	t.Fatal("no response matches")
	return 0
}

func hasEvents(r model.WatchResponse) bool { return len(r.Events) > 0 }

func dropEvent(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, hasEvents)
	responses[i].Events = responses[i].Events[1:]
}

func dropFirstEvent(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := slices.IndexFunc(responses, hasEvents)
	responses[i].Events = nil
}

func repeatEvent(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, hasEvents)
	responses[i].Events = append(responses[i].Events, responses[i].Events[len(responses[i].Events)-1])
}

func swapEvents(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, hasEvents)
	j := i + 1 + slices.IndexFunc(responses[i+1:], hasEvents)
	responses[i].Events, responses[j].Events = responses[j].Events, responses[i].Events
}

func tearRevision(t *testing.T, r *recording) {
	responses := r.responses(t)
	i := find(t, *responses, func(r model.WatchResponse) bool {
		n := len(r.Events)
		return n > 1 && r.Events[n-1].Revision == r.Events[n-2].Revision
	})
	whole := (*responses)[i].Events
	half := model.WatchResponse{Events: whole[len(whole)-1:], Revision: whole[0].Revision}
	(*responses)[i].Events = whole[:len(whole)-1]
	*responses = slices.Insert(*responses, i+1, half)
}

func bookmarkEarly(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, func(r model.WatchResponse) bool { return r.IsProgressNotify })
	j := i + slices.IndexFunc(responses[i:], hasEvents)
	responses[i].Revision = responses[j].Events[0].Revision
}

func changeValue(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, func(r model.WatchResponse) bool { return hasEvents(r) && r.Events[0].Type == model.PutOperation })
	responses[i].Events[0].Value = model.ToValueOrHash("another")
}

func denyCreation(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, func(r model.WatchResponse) bool { return hasEvents(r) && r.Events[0].IsCreate })
	responses[i].Events[0].IsCreate = false
}

func changeKey(t *testing.T, r *recording) {
	responses := *r.responses(t)
	i := find(t, responses, hasEvents)
	responses[i].Events[0].Key = otherPrefix
}

func inventEvent(t *testing.T, r *recording) {
	responses := r.responses(t)
	*responses = append(*responses, model.WatchResponse{Events: []model.WatchEvent{{PersistedEvent: model.PersistedEvent{
		Event:    model.Event{Type: model.DeleteOperation, Key: prefix + keys[0]},
		Revision: 1_000_000,
	}}}})
}

// operation returns the first operation, or the last one, that satisfies wanted.
func (r *recording) operation(t *testing.T, last bool, wanted func(model.EtcdRequest, model.MaybeEtcdResponse) bool) *porcupine.Operation {
	t.Helper()
	var found *porcupine.Operation
	for i := range r.reports {
		operations := r.reports[i].KeyValue
		for j := range operations {
			o := &operations[j]
			if wanted(o.Input.(model.EtcdRequest), o.Output.(model.MaybeEtcdResponse)) &&
				(found == nil || last == (o.Call > found.Call)) {
				found = o
			}
		}
	}
	if found == nil {
		t.Fatal("no operation matches")
	}
	return found
}

func staleRead(t *testing.T, r *recording) {
	ofAll := func(request model.EtcdRequest, response model.MaybeEtcdResponse) bool {
		return request.Type == model.Range && request.Range.Start == prefix && response.Error == ""
	}
	early, late := r.operation(t, false, ofAll), r.operation(t, true, ofAll)
	late.Output = early.Output
}

func forgetWrite(t *testing.T, r *recording) {
	r.forget(r.operation(t, false, func(request model.EtcdRequest, response model.MaybeEtcdResponse) bool {
		return request.Type == model.Txn && strings.HasPrefix(firstPut(request), prefix) && response.Error == "" && !response.Txn.Failure
	}))
}

func forgetDeletion(t *testing.T, r *recording) { r.forget(r.operation(t, false, deletesAlone)) }

// deletesAlone reports whether a write deleted something and put nothing.
func deletesAlone(request model.EtcdRequest, response model.MaybeEtcdResponse) bool {
	return request.Type == model.Txn && firstPut(request) == "" && response.Txn != nil &&
		slices.ContainsFunc(response.Txn.Results, func(r model.EtcdOperationResult) bool { return r.Deleted > 0 })
}

func (r *recording) forget(forgotten *porcupine.Operation) {
	client, call := forgotten.ClientId, forgotten.Call
	for i := range r.reports {
		r.reports[i].KeyValue = slices.DeleteFunc(r.reports[i].KeyValue, func(o porcupine.Operation) bool {
			return o.ClientId == client && o.Call == call
		})
	}
}

// loseAnswers removes the answer from every fifth write, and from every write that only
// deleted. Such a write becomes the last one of its stream.
func loseAnswers(r *recording) {
	n := 0
	for i := range r.reports {
		for j := range r.reports[i].KeyValue {
			o := &r.reports[i].KeyValue[j]
			request, response := o.Input.(model.EtcdRequest), o.Output.(model.MaybeEtcdResponse)
			if request.Type != model.Txn || response.Error != "" {
				continue
			}
			if n++; n%5 == 0 || deletesAlone(request, response) {
				o.ClientId = 1_000_000 + n
				o.Output = model.MaybeEtcdResponse{Error: "lost"}
			}
		}
	}
}

func firstPut(request model.EtcdRequest) string {
	for _, op := range request.Txn.OperationsOnSuccess {
		if op.Type == model.PutOperation {
			return op.Put.Key
		}
	}
	return ""
}

func denyRefusal(t *testing.T, r *recording) {
	refused := r.operation(t, false, func(request model.EtcdRequest, response model.MaybeEtcdResponse) bool {
		return request.Type == model.Txn && response.Error == "" && response.Txn.Failure
	})
	output := refused.Output.(model.MaybeEtcdResponse)
	output.Txn = &model.TxnResponse{Results: make([]model.EtcdOperationResult, len(refused.Input.(model.EtcdRequest).Txn.OperationsOnSuccess))}
	refused.Output = output
}

func dropObject(t *testing.T, r *recording) {
	i := slices.IndexFunc(r.states, func(s state) bool { return len(s.objects) > 1 })
	if i < 0 {
		t.Fatal("no state matches")
	}
	r.states[i].objects = append([]*mvccpb.KeyValue{}, r.states[i].objects[1:]...)
}
