package robustness

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"go.etcd.io/etcd/tests/v3/robustness/model"
	"go.etcd.io/etcd/tests/v3/robustness/report"
	"go.etcd.io/etcd/tests/v3/robustness/validate"
	"go.uber.org/zap"
	"go.uber.org/zap/zaptest"
)

// validationTimeout is how long the validator may search for an order of the operations.
// If an order exists, the search takes seconds. To prove that none exists, the validator
// may have to try more orders than fit into memory.
const validationTimeout = time.Minute

// quiet makes the validator log only what is wrong.
var quiet = zaptest.Level(zap.WarnLevel)

// validate returns what is wrong with a recording, or nil.
func (r *recording) validate(t *testing.T) (err error) {
	t.Helper()
	// The validator panics if a watch has an event that is newer than etcd's whole
	// history.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the validator panicked: %v", p)
		}
	}()
	lg := zaptest.NewLogger(t, quiet)
	result := validate.ValidateAndReturnVisualize(lg, validate.Config{}, completed(r.reports, r.persisted), r.persisted, validationTimeout)
	if status := result.Linearization.Status; status == validate.Failure || status == validate.Timeout {
		picture := filepath.Join(r.dir, "history.html")
		if porcupine.VisualizePath(result.Linearization.Model, result.Linearization.Info, picture) == nil {
			t.Logf("the operations, and the longest order found for them: %s", picture)
		}
	}
	if err := result.Error(); err != nil {
		return err
	}
	if len(r.states) == 0 {
		return nil
	}
	requests, reports := inOrder(r.persisted, r.states)
	if err := validate.ValidateAndReturnVisualize(lg, validate.Config{}, reports, requests, validationTimeout).Error(); err != nil {
		return fmt.Errorf("states: %w", err)
	}
	return nil
}

// save writes the recording in the format of etcd's own robustness tests, and copies
// etcd's data.
func (r *recording) save(t *testing.T) {
	t.Helper()
	members := map[string]string{}
	for _, dir := range r.dataDirs {
		members[filepath.Base(dir)] = dir
	}
	saved, err := report.NewTestReport(zap.NewNop(), filepath.Join(r.dir, "report"), members, nil)
	if err != nil {
		t.Error(err)
		return
	}
	saved.SetClientReports(r.reports)
	if err := saved.SaveEtcdData(); err != nil {
		t.Error(err)
	}
}

// inOrder returns a history in which the persisted requests were made one after
// another, followed by a read of every state at its revision. The validator compares
// these reads with the result of the requests.
func inOrder(persisted []model.EtcdRequest, states []state) ([]model.EtcdRequest, []report.ClientReport) {
	var requests []model.EtcdRequest
	var operations []porcupine.Operation
	do := func(request model.EtcdRequest, response model.MaybeEtcdResponse) {
		now := int64(2 * len(operations))
		operations = append(operations, porcupine.Operation{Input: request, Call: now + 1, Output: response, Return: now + 2})
	}
	do(state{span: whole(), revision: 1}.asRead(1))
	for _, request := range persisted {
		// Leases and compactions change no key. After a compaction the validator would
		// expect reads to fail that fanoutd can still answer.
		if request.Type == model.Txn {
			requests = append(requests, request)
			do(request, model.MaybeEtcdResponse{Persisted: true})
		}
	}
	newest := int64(1)
	if events := model.NewReplay(requests).Events; len(events) > 0 {
		newest = events[len(events)-1].Revision
	}
	for _, s := range states {
		do(s.asRead(newest))
	}
	return requests, []report.ClientReport{{KeyValue: operations}}
}

// asRead returns the state as a read of etcd at an old revision, made when etcd was at
// revision now.
func (s state) asRead(now int64) (model.EtcdRequest, model.MaybeEtcdResponse) {
	request := model.EtcdRequest{Type: model.Range, Range: &model.RangeRequest{
		RangeOptions: model.RangeOptions{Start: s.from, End: s.to},
		Revision:     s.revision,
	}}
	kvs := make([]model.KeyValue, 0, len(s.objects))
	for _, o := range s.objects {
		kvs = append(kvs, model.KeyValue{Key: string(o.Key), ValueRevision: valueRevision(o)})
	}
	return request, model.MaybeEtcdResponse{EtcdResponse: model.EtcdResponse{
		Range:    &model.RangeResponse{KVs: kvs, Count: int64(len(kvs))},
		Revision: now,
	}}
}
