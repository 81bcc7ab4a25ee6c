package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/check"
)

// operation is a kind of operation whose outages are measured.
type operation int

// The measured operations.
const (
	reads operation = iota // linearizable
	staleReads
	writes
	watches
	operationCount
)

// outageProbe measures how long a client of one server waits: for an answer to a read or a
// write, which the client repeats until it succeeds, and for the event of a write that
// any server or etcd has acknowledged.
type outageProbe struct {
	ledger *ledger
	key    string // that it writes

	mu       sync.Mutex
	waits    [operationCount][]check.Span // guarded by mu
	arrivals []arrival                    // at the watch, oldest first; guarded by mu
}

// arrival is a message of a watch.
type arrival struct {
	at       time.Time
	revision object.Revision // of its position
}

// startOutageProbes starts a probe of each server.
func (w *scenario) startOutageProbes() []*outageProbe {
	var probes []*outageProbe
	for i, s := range append([]*server{w.server}, w.others...) {
		p := &outageProbe{ledger: w.ledger, key: fmt.Sprintf("outage-probe/%d", i)}
		probes = append(probes, p)
		reader, store := fanoutv1.NewFanoutServiceClient(s.conn), fanoutv1.NewStoreServiceClient(s.conn)
		list := func(consistency *fanoutv1.ReadConsistency) func() error {
			return func() error {
				_, err := reader.List(w.ctx, &fanoutv1.ListRequest{Resource: resource, PageSize: 1, Consistency: consistency})
				return err
			}
		}
		stale := &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_Any{Any: &fanoutv1.AnyRevision{}}}
		w.actors.Go(func() error { return p.run(w.ctx, w.writing, reads, list(nil)) })
		w.actors.Go(func() error { return p.run(w.ctx, w.writing, staleReads, list(stale)) })
		w.write(func() error {
			return p.run(w.ctx, w.writing, writes, func() error { return p.put(w.ctx, store) })
		})
		w.actors.Go(func() error { return p.watch(w.ctx, w.goal, reader) })
	}
	return probes
}

// run makes calls until the context until ends.
func (p *outageProbe) run(ctx, until context.Context, o operation, call func() error) error {
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	from := time.Now()
	for {
		err := call()
		if err != nil && ctx.Err() == nil && status.Code(err) != codes.Unavailable {
			return fmt.Errorf("outage probe: %w", err)
		}
		if err == nil {
			p.waited(o, from)
		}
		select {
		case <-until.Done():
			return nil
		case <-ticker.C:
		}
		if err == nil {
			from = time.Now()
		}
	}
}

// waited records a wait until now.
func (p *outageProbe) waited(o operation, from time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waits[o] = append(p.waits[o], check.Span{From: from, To: time.Now()})
}

func (p *outageProbe) put(ctx context.Context, store fanoutv1.StoreServiceClient) error {
	begun := p.ledger.begin()
	answer, err := store.Put(ctx, &fanoutv1.PutRequest{Resource: resource, Put: &fanoutv1.PutOperation{Key: p.key}})
	if err != nil {
		return err
	}
	begun.acknowledged(answer.GetRevision(), object.Key(p.key))
	return nil
}

// watch watches the resource until it has seen everything up to the goal.
func (p *outageProbe) watch(ctx context.Context, goal *goal, client fanoutv1.FanoutServiceClient) error {
	var last *fanoutv1.Position
	for ctx.Err() == nil {
		request := &fanoutv1.WatchRequest{Resource: resource, OmitValues: true, BookmarkInterval: duration(100 * time.Millisecond)}
		if last != nil {
			request.Begin = &fanoutv1.WatchRequest_After{After: last}
		}
		stream, err := client.Watch(ctx, request)
		for err == nil {
			var response *fanoutv1.WatchResponse
			if response, err = stream.Recv(); err != nil {
				break
			}
			last = response.GetPosition()
			p.reached(object.Revision(last.GetRevision()))
			if end := goal.revision.Load(); end > 0 && last.GetRevision() >= end {
				return nil
			}
		}
		if ctx.Err() == nil && status.Code(err) != codes.Unavailable {
			return fmt.Errorf("outage probe: %w", err)
		}
	}
	return context.Cause(ctx)
}

// reached records that the watch has delivered everything up to the revision.
func (p *outageProbe) reached(revision object.Revision) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.arrivals = append(p.arrivals, arrival{time.Now(), revision})
}

// deliver records how long the events of acknowledged writes took. It is called once, after
// all actors have ended.
func (p *outageProbe) deliver() {
	for _, w := range p.ledger.acknowledgements() {
		i := sort.Search(len(p.arrivals), func(i int) bool { return p.arrivals[i].revision >= w.Revision })
		if i < len(p.arrivals) && p.arrivals[i].at.After(w.At) {
			p.waits[watches] = append(p.waits[watches], check.Span{From: w.At, To: p.arrivals[i].at})
		}
	}
}

// longestOutages returns the longest wait for each operation during each of the spans, which
// are in order. A wait belongs to the first span that it overlaps. All actors have ended.
func longestOutages(probes []*outageProbe, spans []check.Span) [][operationCount]time.Duration {
	longest := make([][operationCount]time.Duration, len(spans))
	for _, p := range probes {
		for o, waits := range p.waits {
			for _, w := range waits {
				i := slices.IndexFunc(spans, func(s check.Span) bool { return w.From.Before(s.To) && w.To.After(s.From) })
				if i >= 0 {
					longest[i][o] = max(longest[i][o], w.To.Sub(w.From))
				}
			}
		}
	}
	return longest
}

// outageTable has the longest outage of each operation by the name of the fault.
type outageTable map[string]*outageRow

// outageRow sums up all occurrences of a fault.
type outageRow struct {
	times   int
	fault   time.Duration // the longest
	longest [operationCount]time.Duration
}

// add adds a fault that lasted for a time, and the longest outage of each operation.
func (o outageTable) add(name string, lasted time.Duration, longest [operationCount]time.Duration) {
	row := o[name]
	if row == nil {
		row = &outageRow{}
		o[name] = row
	}
	row.times++
	row.fault = max(row.fault, lasted)
	for i := range row.longest {
		row.longest[i] = max(row.longest[i], longest[i])
	}
}

// print logs the table in Markdown.
func (o outageTable) print(t *testing.T) {
	t.Helper()
	lines := []string{
		"| fault | times | lasted up to | reads | stale reads | writes | watches |",
		"|---|---|---|---|---|---|---|",
	}
	for _, name := range slices.Sorted(maps.Keys(o)) {
		row := o[name]
		var line strings.Builder
		fmt.Fprintf(&line, "| %s | %d | %.1f s |", name, row.times, row.fault.Seconds())
		for _, longest := range row.longest {
			if longest == 0 {
				line.WriteString(" – |") // not measured
				continue
			}
			fmt.Fprintf(&line, " %.2f s |", longest.Seconds())
		}
		lines = append(lines, line.String())
	}
	t.Logf("the longest outages:\n%s", strings.Join(lines, "\n"))
}
