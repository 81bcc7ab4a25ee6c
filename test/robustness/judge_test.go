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

// judging is how long the validator may look for an order of the operations. Where
// there is one it needs seconds; to be sure that there is none it may have to try more
// of them than fit into memory.
const judging = time.Minute

// quiet makes the validator say only what is wrong.
var quiet = zaptest.Level(zap.WarnLevel)

// judge returns what is wrong with a recording, nil if it is clean.
func (r *recording) judge(t *testing.T) (err error) {
	t.Helper()
	// The validator panics where a watch has an event that is newer than all of
	// etcd's history.
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the validator cannot make sense of it: %v", p)
		}
	}()
	lg := zaptest.NewLogger(t, quiet)
	result := validate.ValidateAndReturnVisualize(lg, validate.Config{}, explained(r.reports, r.persisted), r.persisted, judging)
	if status := result.Linearization.Status; status == validate.Failure || status == validate.Timeout {
		picture := filepath.Join(r.dir, "history.html")
		if porcupine.VisualizePath(result.Linearization.Model, result.Linearization.Info, picture) == nil {
			t.Logf("the operations, and how far an order for them was found: %s", picture)
		}
	}
	if err := result.Error(); err != nil {
		return err
	}
	if len(r.states) == 0 {
		return nil
	}
	requests, reports := inOrder(r.persisted, r.states)
	if err := validate.ValidateAndReturnVisualize(lg, validate.Config{}, reports, requests, judging).Error(); err != nil {
		return fmt.Errorf("states: %w", err)
	}
	return nil
}

// save writes down what was recorded, in the form in which etcd's own robustness
// tests keep what they have recorded, and copies the data of etcd.
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
// another, and then every state was read at its revision. The validator compares
// such reads with what the requests have led to.
func inOrder(persisted []model.EtcdRequest, states []state) ([]model.EtcdRequest, []report.ClientReport) {
	var requests []model.EtcdRequest
	var operations []porcupine.Operation
	do := func(request model.EtcdRequest, response model.MaybeEtcdResponse) {
		now := int64(2 * len(operations))
		operations = append(operations, porcupine.Operation{Input: request, Call: now + 1, Output: response, Return: now + 2})
	}
	do(state{span: whole(), revision: 1}.asRead(1))
	for _, request := range persisted {
		// Leases and compactions change no key; and after a compaction the validator
		// expects to be refused what fanoutd still remembers.
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

// asRead returns the state as a read of etcd at an old revision, made when etcd
// was at the revision now.
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
