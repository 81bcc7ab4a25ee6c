package robustness

import (
	"cmp"
	"iter"
	"math"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
)

// explained returns the recorded reports with what the write-ahead log knows
// better.
//
// A write without an answer was applied or not, and nobody knows when. The validator
// asks the log about most of them, and tries at every place what follows from the
// others if they were applied there and if they were not; with a few of those it
// has no memory left. But a write that was applied has moved the revision, and if
// nobody was answered with that revision, then it was one of those without an
// answer. The others had no effect.
//
// What fanoutd writes on its own behalf, nobody has recorded. It is found by its
// keys.
//
// When such a request was applied its neighbours in the log tell: not before those
// in front of it were called, and not after those behind it had returned.
func explained(recorded []report.ClientReport, persisted []model.EtcdRequest) []report.ClientReport {
	reports, open := withoutOpen(recorded)
	intervals, answered := known(recorded)
	state, err := model.NewReplay(persisted).StateForRevision(1)
	if err != nil {
		panic(err) // every etcd has had revision 1
	}
	var found []porcupine.Operation
	call := int64(1)
	for _, request := range persisted {
		before := state.Revision
		state, _ = state.Step(request)
		if moved := state.Revision != before; moved && !answered[state.Revision] {
			op := porcupine.Operation{ClientId: -1 - len(found), Input: request, Call: call, Return: math.MaxInt64}
			i := slices.IndexFunc(open, func(o porcupine.Operation) bool { return same(o.Input.(model.EtcdRequest), request) })
			if i >= 0 {
				op.Call = max(op.Call, open[i].Call)
				open = slices.Delete(open, i, i+1)
			}
			if i >= 0 || foreign(request) {
				op.Output = model.MaybeEtcdResponse{Persisted: true, PersistedRevision: state.Revision}
				found = append(found, op)
			}
		}
		for value := range puts(request) {
			neighbour, ok := intervals[value]
			if !ok {
				continue
			}
			call = max(call, neighbour.call)
			for i := range found {
				found[i].Return = max(found[i].Call+1, min(found[i].Return, neighbour.end))
			}
		}
	}
	for _, op := range found {
		reports = append(reports, report.ClientReport{ClientID: op.ClientId, KeyValue: []porcupine.Operation{op}})
	}
	return reports
}

// withoutOpen takes the writes that have no answer out of reports. It returns them
// in the order of their calls: whoever called first can have been applied first, and
// any of those that are alike can have been applied later.
func withoutOpen(recorded []report.ClientReport) (reports []report.ClientReport, open []porcupine.Operation) {
	reports = slices.Clone(recorded)
	for i := range reports {
		r := &reports[i]
		r.KeyValue = slices.DeleteFunc(slices.Clone(r.KeyValue), func(op porcupine.Operation) bool {
			isOpen := op.Input.(model.EtcdRequest).Type == model.Txn && op.Output.(model.MaybeEtcdResponse).Error != ""
			if isOpen {
				open = append(open, op)
			}
			return isOpen
		})
	}
	slices.SortFunc(open, func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	return reports, open
}

// interval is when an operation was under way.
type interval struct{ call, end int64 }

// known returns when each value was put, and the revisions that writers were
// answered with for what they changed.
func known(recorded []report.ClientReport) (intervals map[model.PutOptions]interval, answered map[int64]bool) {
	intervals, answered = map[model.PutOptions]interval{}, map[int64]bool{}
	for _, r := range recorded {
		for _, op := range r.KeyValue {
			request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
			end := op.Return
			if response.Error != "" {
				end = math.MaxInt64
			}
			applied := response.Txn != nil && !response.Txn.Failure
			for value := range puts(request) {
				intervals[value] = interval{op.Call, end}
				answered[response.Revision] = answered[response.Revision] || applied
			}
			if applied && slices.ContainsFunc(response.Txn.Results, func(r model.EtcdOperationResult) bool { return r.Deleted > 0 }) {
				answered[response.Revision] = true
			}
		}
	}
	return intervals, answered
}

// same reports whether a request in the log can be the recorded one. fanoutd adds
// to it what it wants to know if it fails.
func same(recorded, persisted model.EtcdRequest) bool {
	return persisted.Type == model.Txn &&
		slices.Equal(recorded.Txn.Conditions, persisted.Txn.Conditions) &&
		slices.Equal(recorded.Txn.OperationsOnSuccess, persisted.Txn.OperationsOnSuccess)
}

// foreign reports whether a request writes a key that is no client's.
func foreign(request model.EtcdRequest) bool {
	return request.Type == model.Txn && slices.ContainsFunc(request.Txn.AllOperations(), func(op model.EtcdOperation) bool {
		key := op.Put.Key
		switch op.Type {
		case model.DeleteOperation:
			key = op.Delete.Key
		case model.RangeOperation:
			return false
		}
		return !strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, strangers)
	})
}

// puts returns what a request may put.
func puts(request model.EtcdRequest) iter.Seq[model.PutOptions] {
	return func(yield func(model.PutOptions) bool) {
		if request.Type != model.Txn {
			return
		}
		for _, op := range request.Txn.AllOperations() {
			if op.Type == model.PutOperation && !yield(op.Put) {
				return
			}
		}
	}
}
