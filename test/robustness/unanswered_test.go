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

// completed returns the recorded reports with the unknown outcomes filled in from the
// write-ahead log.
//
// A write without an answer may or may not have been applied, at an unknown time. The
// validator can look up most of them in the log. For the others it tries every possible
// position, each with and without the write; with a few of those it runs out of memory.
// But an applied write has moved the revision. If no client received that revision in
// an answer, the write is one of those without an answer. The others had no effect.
//
// fanoutd's own writes are not recorded. They are identified by their keys.
//
// The neighbors of such a request in the log limit when it was applied: after the calls
// of the earlier requests, and before the returns of the later ones.
func completed(recorded []report.ClientReport, persisted []model.EtcdRequest) []report.ClientReport {
	reports, open := withoutOpen(recorded)
	intervals, answered := known(recorded)
	state, err := model.NewReplay(persisted).StateForRevision(1)
	if err != nil {
		panic(err) // etcd always has revision 1
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
	narrow(reports)
	return reports
}

// narrow shortens the interval of each operation to what its revision allows. The
// operation happened after the writes up to that revision were called, and before the
// first later write returned. The validator could infer this, but it would try all
// orders of concurrent operations, and to reject a history it would repeat that for all
// earlier ones. An operation whose interval would become empty is left unchanged, so
// that the validator rejects it.
func narrow(reports []report.ClientReport) {
	newest := int64(0)
	for op := range operations(reports) {
		newest = max(newest, revision(op))
	}
	// By revision: the latest call of a write up to it, and the earliest return of a
	// write from it on.
	calls, ends := make([]int64, newest+2), make([]int64, newest+2)
	for i := range ends {
		ends[i] = math.MaxInt64
	}
	for op := range operations(reports) {
		if r := revision(op); r > 0 && writes(op) {
			calls[r], ends[r] = max(calls[r], op.Call), min(ends[r], op.Return)
		}
	}
	for r := range newest + 1 {
		calls[r+1] = max(calls[r+1], calls[r])
		ends[newest-r] = min(ends[newest-r], ends[newest-r+1])
	}
	for op := range operations(reports) {
		r := revision(op)
		if r <= 0 {
			continue
		}
		before := r
		if writes(op) {
			before--
		}
		call, end := max(op.Call, calls[before]), min(op.Return, ends[r+1])
		if call < end {
			op.Call, op.Return = call, end
		}
	}
}

// operations returns the operations of reports, which the caller may change in place.
func operations(reports []report.ClientReport) iter.Seq[*porcupine.Operation] {
	return func(yield func(*porcupine.Operation) bool) {
		for i := range reports {
			for j := range reports[i].KeyValue {
				if !yield(&reports[i].KeyValue[j]) {
					return
				}
			}
		}
	}
}

// revision returns the revision in the answer to an operation, or 0 or less if it has
// none.
func revision(op *porcupine.Operation) int64 {
	response := op.Output.(model.MaybeEtcdResponse)
	return max(response.Revision, response.PersistedRevision)
}

// writes reports whether an operation certainly moved the revision.
func writes(op *porcupine.Operation) bool {
	request, response := op.Input.(model.EtcdRequest), op.Output.(model.MaybeEtcdResponse)
	if response.Persisted {
		return true
	}
	if response.Txn == nil || response.Txn.Failure {
		return false
	}
	for range puts(request) {
		return true
	}
	return slices.ContainsFunc(response.Txn.Results, func(r model.EtcdOperationResult) bool { return r.Deleted > 0 })
}

// withoutOpen removes the writes that have no answer from reports. It returns them in
// the order of their calls. That order assigns identical writes correctly: the one that
// was called first can have been applied first, and any of them can be applied later.
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

// interval is the time between the call and the return of an operation.
type interval struct{ call, end int64 }

// known returns when each value was put, and the revisions in the answers to writes.
func known(recorded []report.ClientReport) (intervals map[model.PutOptions]interval, answered map[int64]bool) {
	intervals, answered = map[model.PutOptions]interval{}, map[int64]bool{}
	for op := range operations(recorded) {
		end := op.Return
		if op.Output.(model.MaybeEtcdResponse).Error != "" {
			end = math.MaxInt64
		}
		for value := range puts(op.Input.(model.EtcdRequest)) {
			intervals[value] = interval{op.Call, end}
		}
		if writes(op) {
			answered[revision(op)] = true
		}
	}
	return intervals, answered
}

// same reports whether a request in the log can be the recorded one. fanoutd adds
// reads to its transactions, to learn why a precondition failed and which leases were
// replaced. A write without a precondition may get one: that the object which it replaces is
// still the one that fanoutd has found not to be opaque, has checked, or has recorded.
func same(recorded, persisted model.EtcdRequest) bool {
	return persisted.Type == model.Txn &&
		slices.Equal(recorded.Txn.Conditions, withoutOverwrites(persisted.Txn.Conditions, recorded)) &&
		slices.Equal(recorded.Txn.OperationsOnSuccess, withoutReads(persisted.Txn.OperationsOnSuccess))
}

// withoutOverwrites returns the conditions without those of keys that the recorded
// request writes without a condition.
func withoutOverwrites(conditions []model.EtcdCondition, recorded model.EtcdRequest) []model.EtcdCondition {
	conditional := map[string]bool{}
	for _, c := range recorded.Txn.Conditions {
		conditional[c.Key] = true
	}
	free := map[string]bool{}
	for _, op := range recorded.Txn.OperationsOnSuccess {
		key := op.Put.Key
		if op.Type == model.DeleteOperation {
			key = op.Delete.Key
		}
		free[key] = !conditional[key]
	}
	return slices.DeleteFunc(slices.Clone(conditions), func(c model.EtcdCondition) bool { return free[c.Key] })
}

func withoutReads(operations []model.EtcdOperation) []model.EtcdOperation {
	return slices.DeleteFunc(slices.Clone(operations), func(op model.EtcdOperation) bool { return op.Type == model.RangeOperation })
}

// foreign reports whether a request writes a key that does not belong to the clients.
func foreign(request model.EtcdRequest) bool {
	return request.Type == model.Txn && slices.ContainsFunc(request.Txn.AllOperations(), func(op model.EtcdOperation) bool {
		key := op.Put.Key
		switch op.Type {
		case model.DeleteOperation:
			key = op.Delete.Key
		case model.RangeOperation:
			return false
		}
		return !strings.HasPrefix(key, prefix) && !strings.HasPrefix(key, otherPrefix)
	})
}

// puts returns the puts of both branches of a request.
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
