package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
	"github.com/fanoutd/fanoutd/test/check/recorded"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/poll"
)

// restore restores etcd from a snapshot while links are frozen, so that etcd forgets writes,
// and makes enough new ones that every forgotten revision exists again. Each watcher receives
// the history before the restore and then a RESET with the restored state.
func (w *scenario) restore(t *testing.T, etcd *cluster, rng *rand.Rand, outages outageTable) {
	t.Helper()
	servers := append([]*server{w.server}, w.others...)
	var recorders []*recorder
	for i, options := range watchKinds(rng, 12) {
		options.everyEvent, options.timeLimit, options.deadline, options.batchDelay = false, 0, 0, 0
		options.bookmarks = 200 * time.Millisecond
		r := newRecorderOf(t, servers[i%len(servers)].conn, options)
		r.open(t, check.FromNothing)
		r.until(t, object.Synced)
		recorders = append(recorders, r)
	}
	snapshot := etcd.members[rng.IntN(len(etcd.members))].Snapshot(t)
	kept := w.now(t)
	writer := &etcdWriter{name: "restorer", client: w.etcd, rng: rng, ledger: newLedger()}
	forgotten := 1 + rng.IntN(20)
	frozen, ofServer := rng.IntN(3), pick(rng, []links{etcd.near, etcd.far})
	if frozen == 1 {
		ofServer.freeze()
	}
	w.writeMany(t, writer, forgotten)
	if frozen == 2 {
		ofServer.freeze()
	}
	ctx := poll.Context(t)
	before, err := w.history.truth(ctx, w.now(t))
	if err != nil {
		t.Fatal(err)
	}
	w.history.end()
	began := time.Now()
	kill(t, etcd.members)
	for _, m := range etcd.members {
		m.Restore(t, snapshot)
	}
	launch(t, etcd.members)
	restored := continueHistory(t, w.etcd, w.history, kept)
	w.writeMany(t, writer, forgotten+rng.IntN(20))
	etcd.heal()
	var longest [operationCount]time.Duration
	healed := time.Now()
	last := w.writeMany(t, writer, 1)
	epoch := recorders[0].history.Streams[0].Messages[0].Position.Epoch
	for _, s := range servers {
		w.awaitRestored(ctx, t, s, epoch)
	}
	longest[reads] = time.Since(healed)
	for _, r := range recorders {
		r.reachOther(t, epoch, last)
	}
	longest[watches] = time.Since(healed)
	outages.add("etcd restored from a snapshot (outages since the restore)", healed.Sub(began), longest)
	after, err := restored.truth(ctx, w.now(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range recorders {
		for _, part := range byEpoch(&r.history) {
			truth := after
			if at, _ := part.Position(); at.Epoch == epoch {
				truth = before
			}
			if err := check.Validate(part, truth); err != nil {
				t.Error(err)
			}
		}
	}
	w.compareLists(t, servers, after)
	t.Logf("restored at %d, %d writes forgotten, frozen: %d", kept, forgotten, frozen)
}

// awaitRestored waits until a read of the server has another epoch. No linearizable read may
// answer from before the restore.
func (w *scenario) awaitRestored(ctx context.Context, t *testing.T, s *server, epoch object.Epoch) {
	t.Helper()
	for {
		answer, err := fanoutv1.NewFanoutServiceClient(s.conn).List(ctx, &fanoutv1.ListRequest{Resource: resource, PageSize: 1})
		if err == nil && answer.GetPosition().GetEpoch() != string(epoch) {
			return
		}
		if err == nil {
			t.Errorf("a linearizable read answered at %d from before the restore", answer.GetPosition().GetRevision())
		}
		if ctx.Err() != nil {
			t.Fatalf("a server does not answer from the restored etcd: %v", err)
		}
	}
}

// writeMany makes random writes to etcd, and returns the last revision.
func (w *scenario) writeMany(t *testing.T, writer *etcdWriter, n int) object.Revision {
	t.Helper()
	ctx := poll.Context(t)
	for range n {
		writer.writes++
		ops, err := writer.next()
		for err == nil {
			if err = writer.apply(ctx, ops); err == nil || !transient(err) {
				break
			}
			err = ctx.Err()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return w.now(t)
}

// now returns the revision of etcd, also when the actors have ended.
func (w *scenario) now(t *testing.T) object.Revision {
	t.Helper()
	ctx := poll.Context(t)
	revision, err := w.lastRevision(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return revision
}

// compareLists compares a consistent list of each server with the truth.
func (w *scenario) compareLists(t *testing.T, servers []*server, truth *check.Truth) {
	t.Helper()
	for i, s := range servers {
		ctx, cancel := context.WithTimeout(t.Context(), poll.Patience)
		answer, err := fanoutv1.NewFanoutServiceClient(s.conn).List(ctx, &fanoutv1.ListRequest{Resource: resource})
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		page := check.Page{Position: recorded.Position(answer.GetPosition())}
		for _, o := range answer.GetObjects() {
			listed, err := recorded.Object(o)
			if err != nil {
				t.Fatal(err)
			}
			page.Objects = append(page.Objects, listed)
		}
		read := &check.Read{Reader: fmt.Sprintf("list of server %d", i), Uncounted: true, Pages: []check.Page{page}, Unfinished: answer.GetNextPageToken() != ""}
		if err := check.Consistent(read, truth); err != nil {
			t.Error(err)
		}
	}
}

// reachOther receives messages until everything up to the revision in another epoch has been
// delivered. It resumes streams that end.
func (r *recorder) reachOther(t *testing.T, epoch object.Epoch, revision object.Revision) {
	t.Helper()
	for {
		m, err := r.receive(t)
		if err != nil {
			r.leave()
			r.open(t, check.After)
			continue
		}
		if m.Position.Epoch != epoch && m.Position.Revision >= revision {
			return
		}
	}
}

// byEpoch splits a recording into one for each epoch. The first message of a new epoch
// begins a new stream that promises nothing about its beginning.
func byEpoch(h *check.History) []*check.History {
	var parts []*check.History
	var epoch object.Epoch
	for _, s := range h.Streams {
		rest := s.Messages
		if len(rest) == 0 {
			continue
		}
		begin := s
		for len(rest) > 0 {
			n := 1
			for n < len(rest) && rest[n].Position.Epoch == rest[0].Position.Epoch {
				n++
			}
			if now := rest[0].Position.Epoch; now != epoch {
				part := *h
				part.Watcher = fmt.Sprintf("%s, epoch %s", h.Watcher, now)
				part.Streams = nil
				parts, epoch = append(parts, &part), now
				begin = check.Stream{Begin: check.FromNothing}
			}
			begin.Messages = rest[:n]
			last := parts[len(parts)-1]
			last.Streams = append(last.Streams, begin)
			rest = rest[n:]
		}
	}
	return parts
}
