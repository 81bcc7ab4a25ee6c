package clienttest_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fanoutd/fanoutd/client"
	"github.com/fanoutd/fanoutd/clienttest"
	"github.com/fanoutd/fanoutd/test/inprocess"
	"github.com/fanoutd/fanoutd/test/poll"
)

// transcript is what a client sees. Revisions count from the beginning of the test.
type transcript struct {
	t     *testing.T
	r     *client.Resource
	base  int64
	lines []string
}

func (s *transcript) note(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

// rev returns a revision as the number of revisions since the beginning.
func (s *transcript) rev(revision int64) int64 {
	if revision == 0 {
		return 0
	}
	return revision - s.base
}

func (s *transcript) object(o *client.Object) string {
	if o == nil {
		return "nothing"
	}
	return fmt.Sprintf("%s=%s %s %v version %d, %d-%d ttl %v", o.Key, o.Value, o.ContentType, o.Labels, o.Version, s.rev(o.CreateRevision), s.rev(o.ModRevision), o.HasTTL)
}

// problem returns an error by its reason.
func (s *transcript) problem(err error) string {
	if err == nil {
		return "ok"
	}
	if e, ok := errors.AsType[*client.Error](err); ok {
		return fmt.Sprintf("%v %s", e.Code, e.Reason)
	}
	return err.Error()
}

func (s *transcript) put(key string, v client.Value, opts ...client.WriteOption) int64 {
	s.t.Helper()
	revision, err := s.r.Put(s.t.Context(), key, v, opts...)
	s.note("put %s: %d %s", key, s.rev(revision), s.problem(err))
	return revision
}

func (s *transcript) list(what string, opts ...client.ListOption) {
	s.t.Helper()
	for o, err := range s.r.List(s.t.Context(), opts...) {
		if err != nil {
			s.note("list %s: %s", what, s.problem(err))
			return
		}
		s.note("list %s: %s", what, s.object(o))
	}
	n, err := s.r.Count(s.t.Context(), opts...)
	s.note("count %s: %d %s", what, n, s.problem(err))
}

// watch notes updates until one has reached the revision.
func (s *transcript) watch(what string, to int64, opts ...client.WatchOption) {
	s.t.Helper()
	ctx, cancel := context.WithCancel(poll.Context(s.t))
	defer cancel()
	next, stop := iter.Pull2(s.r.Watch(ctx, append(opts, client.BookmarkInterval(100*time.Millisecond))...))
	defer stop()
	for {
		u, err, _ := next()
		if err != nil {
			s.note("watch %s: %s", what, s.problem(err))
			return
		}
		if u.Phase == client.PhaseReset {
			s.note("watch %s: reset", what)
		}
		for _, e := range u.Events {
			s.note("watch %s: %v at %d %s, before: %s", what, e.Type, s.rev(e.Revision), s.object(e.Object), s.object(e.Previous))
		}
		if u.Position.Revision >= to {
			return
		}
	}
}

// behave makes requests of all kinds.
func (s *transcript) behave() {
	s.t.Helper()
	ctx := s.t.Context()
	s.base, _ = s.r.Put(ctx, "begin", client.Text("x"))
	first := s.put("team/a", client.JSON(1).WithLabels(map[string]string{"env": "prod"}))
	second := s.put("team/a", client.JSON(2).WithLabels(map[string]string{"env": "test"}))
	s.put("team/b", client.Text("b"), client.IfAbsent())
	s.put("team/b", client.Text("b"), client.IfAbsent())
	s.put("team/b", client.Text("c"), client.IfRevision(first))
	s.put("bad//key", client.Text("b"))
	s.put("broken", client.Text(`{"a": tru`).WithContentType("application/json"))
	s.put("other", client.Bytes([]byte{1, 2}), client.TTL(time.Hour))
	o, err := s.r.Get(ctx, "other")
	s.note("get: %s %s %v", s.object(o), s.problem(err), o.TTL > 59*time.Minute)
	_, err = s.r.Get(ctx, "nothing")
	s.note("get: %s", s.problem(err))
	o, err = s.r.Get(ctx, "team/a", client.AtRevision(first))
	s.note("get at a revision: %s %s", s.object(o), s.problem(err))
	_, err = s.r.Get(ctx, "team/a", client.AtRevision(first+1000))
	s.note("get at a revision: %s", s.problem(err))
	outcome, err := s.r.TryPut(ctx, "team/a", client.Text("z"), client.IfRevision(first))
	s.note("try: %v %d %s %s", outcome.Applied, s.rev(outcome.Revision), s.object(outcome.Object), s.problem(err))
	outcome, err = s.r.TryDelete(ctx, "team/a", client.IfRevision(second))
	s.note("try: %v %v %d %s %s", outcome.Applied, outcome.Deleted, s.rev(outcome.Revision), s.object(outcome.Object), s.problem(err))
	revision, deleted, err := s.r.Delete(ctx, "team/a")
	s.note("delete: %d %v %s", s.rev(revision), deleted, s.problem(err))
	done, err := s.r.Transact(ctx,
		client.OpPut("team/x", client.Text("1")), client.OpPut("team/y", client.Text("1")), client.OpDelete("team/b"), client.OpDelete("team/none"), client.OpCheck("team/a", 0))
	s.note("transact: %d %v %s", s.rev(done.Revision), done.Deleted, s.problem(err))
	_, err = s.r.Transact(ctx, client.OpPut("team/x", client.Text("2")), client.OpCheck("team/y", first))
	s.note("transact: %s", s.problem(err))
	last, err := s.r.Update(ctx, "team/x", func(old *client.Object) (*client.Value, error) {
		v := client.Text(string(old.Value) + "+").WithLabels(map[string]string{"env": "prod"})
		return &v, nil
	})
	s.note("update: %d %s", s.rev(last), s.problem(err))
	s.list("all")
	s.list("below", client.Prefix("team"))
	s.list("by label", client.Labels("env=prod"))
	s.list("by field", client.Fields("name=y"))
	s.list("in the past", client.AtRevision(second))
	s.list("badly", client.Labels("=="))
	s.watch("all", last)
	s.watch("below", last, client.Prefix("team"))
	at := client.Position{Epoch: s.epoch(), Revision: first - 1}
	s.watch("after", last, client.After(at), client.Previous(), client.Prefix("team"))
	s.watch("by label", last, client.After(at), client.Labels("env=prod"), client.Previous())
	s.watch("in the future", last+1000, client.After(client.Position{Epoch: at.Epoch, Revision: last + 500}), client.EveryEvent())
	s.watch("of another epoch", last, client.After(client.Position{Epoch: "other", Revision: first}))
	s.watch("of another epoch", last, client.After(client.Position{Epoch: "other", Revision: first}), client.EveryEvent())
	s.watch("badly", last, client.Labels("=="))
}

func (s *transcript) epoch() string {
	page, err := s.r.ListPage(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return page.Position.Epoch
}

// A client cannot tell the server in memory from one with etcd.
func TestItIsLikeAServerWithEtcd(t *testing.T) {
	if testing.Short() {
		t.Skip("takes more than a second")
	}
	t.Parallel()
	etcd, err := client.New(inprocess.Start(t, inprocess.Config(t)).Address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = etcd.Close() })
	want := &transcript{t: t, r: etcd.Resource("config")}
	want.behave()
	got := &transcript{t: t, r: clienttest.NewServer(t, "config").Client().Resource("config")}
	got.behave()
	if diff := cmp.Diff(want.lines, got.lines); diff != "" {
		t.Errorf("-etcd +memory:\n%s", diff)
	}
	if len(want.lines) < 50 {
		t.Errorf("the transcript has only %d lines:\n%s", len(want.lines), strings.Join(want.lines, "\n"))
	}
}
