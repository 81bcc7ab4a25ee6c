package server_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"

	"google.golang.org/protobuf/proto"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"
)

// ledger is the only writer of a resource. It records its writes, so it knows which events
// each watcher must receive.
type ledger struct {
	*instance
	resource string
	objects  map[object.Key]*object.Decoded // the current state
	changes  []check.Change
	at       int64 // revision of the last write

	labels func(text string) map[string]string // of objects; nil: none
}

func (in *instance) ledger(resource string) *ledger {
	return &ledger{instance: in, resource: resource, objects: map[object.Key]*object.Decoded{}}
}

// commit stores all texts at one revision. A nil text deletes its key.
func (l *ledger) commit(ctx context.Context, texts map[string]*string) error {
	var ops []*fanoutv1.Operation
	keys := slices.Sorted(maps.Keys(texts))
	for _, key := range keys {
		text := texts[key]
		if text == nil {
			ops = append(ops, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Delete{Delete: &fanoutv1.DeleteOperation{Key: key}}})
			continue
		}
		put := putText(key, *text)
		if l.labels != nil {
			put.Labels = l.labels(*text)
		}
		ops = append(ops, &fanoutv1.Operation{Operation: &fanoutv1.Operation_Put{Put: put}})
	}
	resp, err := l.writes.Transact(ctx, &fanoutv1.TransactRequest{Resource: l.resource, Operations: ops})
	if err != nil {
		return err
	}
	l.at = resp.GetRevision()
	for _, key := range keys {
		l.record(object.Key(key), texts[key])
	}
	return nil
}

// write is commit in a test. It returns the revision.
func (l *ledger) write(ctx context.Context, t *testing.T, texts map[string]*string) int64 {
	t.Helper()
	if err := l.commit(ctx, texts); err != nil {
		t.Fatal(err)
	}
	return l.at
}

func (l *ledger) record(key object.Key, text *string) {
	old := l.objects[key]
	if text == nil {
		if old != nil {
			delete(l.objects, key)
			l.changes = append(l.changes, check.Change{Revision: object.Revision(l.at), Key: key})
		}
		return
	}
	o := &object.Decoded{
		Key: key, Value: []byte(*text), ContentType: object.ContentText,
		CreateRevision: object.Revision(l.at), ModRevision: object.Revision(l.at), Version: 1,
	}
	if l.labels != nil {
		o.Labels = l.labels(*text)
	}
	if old != nil {
		o.CreateRevision, o.Version = old.CreateRevision, old.Version+1
	}
	l.objects[key] = o
	l.changes = append(l.changes, check.Change{Revision: o.ModRevision, Key: key, New: o})
}

func (l *ledger) set(ctx context.Context, t *testing.T, key, text string) int64 {
	t.Helper()
	return l.write(ctx, t, map[string]*string{key: &text})
}

func (l *ledger) remove(ctx context.Context, t *testing.T, key string) int64 {
	t.Helper()
	return l.write(ctx, t, map[string]*string{key: nil})
}

// truth returns all changes so far, for the checkers.
func (l *ledger) truth(ctx context.Context, t *testing.T, conditions check.Conditions) *check.Truth {
	t.Helper()
	truth, err := check.NewTruth(l.changes, object.Revision(l.revision(ctx, t)))
	if err != nil {
		t.Fatal(err)
	}
	truth.Conditions = conditions
	return truth
}

// read reads all pages of a list and returns them in the form that the checkers need.
func (l *ledger) read(ctx context.Context, t *testing.T, req *fanoutv1.ListRequest) *check.Read {
	t.Helper()
	req = proto.CloneOf(req)
	req.Resource = l.resource
	scope, err := object.ParseKeyScope(req.GetScope().GetKey())
	switch {
	case req.GetScope().GetPrefix() != "":
		scope, err = object.ParsePrefix(req.GetScope().GetPrefix())
	case req.GetScope().GetKey() == "":
		scope, err = object.Scope{}, nil
	}
	if err != nil {
		t.Fatal(err)
	}
	r := &check.Read{
		Reader: fmt.Sprintf("a list of %v", req), Scope: scope, StartKey: object.Key(req.GetStartKey()),
		Exact: object.Revision(req.GetConsistency().GetExactRevision()),
	}
	for {
		page, err := l.reads.List(ctx, req)
		if err != nil {
			t.Fatalf("%v: %v", req, err)
		}
		p := check.Page{Position: recorded.Position(page.GetPosition()), Size: int(req.GetPageSize()), Remaining: page.RemainingCount}
		for _, o := range page.GetObjects() {
			converted, err := recorded.Object(o)
			if err != nil {
				t.Fatal(err)
			}
			p.Objects = append(p.Objects, converted)
		}
		r.Pages = append(r.Pages, p)
		if req.PageToken = page.GetNextPageToken(); req.GetPageToken() == "" {
			return r
		}
		req.Consistency = nil
	}
}

// streamOf returns the received messages in the form that the checkers need.
func streamOf(t *testing.T, begin check.Begin, at *fanoutv1.Position, all []*fanoutv1.WatchResponse) check.Stream {
	t.Helper()
	s := check.Stream{Begin: begin, Position: recorded.Position(at)}
	for _, m := range all {
		message, err := recorded.Message(m)
		if err != nil {
			t.Fatal(err)
		}
		s.Messages = append(s.Messages, message)
	}
	return s
}

// kindsIn returns the kinds of catch-ups that begin in the messages.
func kindsIn(all []*fanoutv1.WatchResponse) []fanoutv1.WatchResponse_CatchUp {
	var kinds []fanoutv1.WatchResponse_CatchUp
	for _, m := range all {
		if m.GetKind() == fanoutv1.WatchResponse_KIND_CATCH_UP_BEGIN {
			kinds = append(kinds, m.GetCatchUp())
		}
	}
	return slices.Clip(kinds)
}
