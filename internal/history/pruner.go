package history

import (
	"context"
	"log/slog"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Limits limits the history of a resource.
type Limits struct {
	Versions int           // records of one key
	Age      time.Duration // of a record
	Bytes    int64         // of all records
}

// Pruner removes old records. The servers of an etcd may all run one: a record is removed only once,
// and removing it again does nothing.
//
// The record of the present value of a key and the one before it stay. Those of a deleted key stay until
// the deletion is too old. Nobody recorded when an object expired, or another program deleted it, so its
// records stay until its last write is too old.
type Pruner struct {
	store    Store
	limits   Limits
	interval time.Duration
	log      *slog.Logger

	mu     sync.Mutex
	counts Counts // guarded by mu
}

// Counts is what a pruner has done and found.
type Counts struct {
	Records  int       // that the last run has left
	Bytes    int64     // of these records
	Removed  int64     // records, since the start
	Failures int64     // runs that failed, since the start
	Last     time.Time // end of the last run that succeeded; before the first one, the start of Run; zero: it has not started
}

// Counts returns what the pruner has done and found.
func (p *Pruner) Counts() Counts {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.counts
}

// note changes the counts.
func (p *Pruner) note(change func(c *Counts)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(&p.counts)
}

// pruneInterval is the time between two runs.
const pruneInterval = 10 * time.Minute

// NewPruner returns a pruner.
func NewPruner(store Store, limits Limits, log *slog.Logger) *Pruner {
	return &Pruner{store: store, limits: limits, interval: pruneInterval, log: log}
}

// Run prunes now and then, until ctx is done.
func (p *Pruner) Run(ctx context.Context) {
	p.note(func(c *Counts) { c.Last = time.Now() })
	// The servers of an etcd do not start at the same time.
	for timer := time.NewTimer(rand.N(p.interval)); ; timer.Reset(p.interval/2 + rand.N(p.interval)) {
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			return
		}
		if err := p.Prune(ctx, time.Now()); err != nil && ctx.Err() == nil {
			p.note(func(c *Counts) { c.Failures++ })
			p.log.Warn("could not remove old records of the history", "error", err)
		}
	}
}

// Prune removes what is too old or too much at a time. It reads only the keys of the records.
func (p *Pruner) Prune(ctx context.Context, now time.Time) error {
	r := prune{pruner: p, now: now, oldest: now.Add(-p.limits.Age)}
	if err := r.run(ctx); err != nil {
		return err
	}
	if r.bytes > p.limits.Bytes {
		r = prune{pruner: p, now: now, oldest: r.oldest, asksAll: true}
		if err := r.run(ctx); err != nil {
			return err
		}
		cut := r.removable.cut(r.bytes - p.limits.Bytes)
		r = prune{pruner: p, now: now, oldest: now.Add(-cut)}
		if err := r.run(ctx); err != nil {
			return err
		}
	}
	p.note(func(c *Counts) { c.Records, c.Bytes, c.Last = r.records, r.bytes, time.Now() })
	return nil
}

// prune is one pass over all records.
type prune struct {
	pruner  *Pruner
	now     time.Time
	oldest  time.Time // older records are removed
	asksAll bool      // whether each object exists; otherwise only if its last write is too old

	key       []Name   // the records of the key that is read, newest first
	asked     [][]Name // those of keys whose object may have expired
	remove    []object.Key
	records   int   // that stay, without those of re-encryptions
	bytes     int64 // of these records
	removable ages
}

// run reads all records. Those of one key follow each other.
func (r *prune) run(ctx context.Context) error {
	for records, err := range r.pruner.store.Names(ctx) {
		if err != nil {
			return err
		}
		for _, record := range records {
			name, ok := ParseRecordKey(record.Key)
			if !ok {
				continue
			}
			if len(r.key) > 0 && r.key[0].Key != name.Key {
				if err := r.endKey(ctx); err != nil {
					return err
				}
			}
			r.key = append(r.key, name)
		}
	}
	if err := r.endKey(ctx); err != nil {
		return err
	}
	if err := r.ask(ctx, 1); err != nil {
		return err
	}
	return r.flush(ctx, 1)
}

// pruneBatch is the number of keys that are removed, or asked for, at a time.
const pruneBatch = 100

// endKey decides about the records of the key that was read, or notes that its object may have expired.
func (r *prune) endKey(ctx context.Context) error {
	if len(r.key) == 0 {
		return nil
	}
	exists, _ := r.key[0].Kind.LeavesObject()
	if exists && (r.asksAll || r.key[0].Time.Before(r.oldest)) {
		r.asked, r.key = append(r.asked, r.key), nil
		return r.ask(ctx, pruneBatch)
	}
	r.decide(r.key, exists)
	r.key = r.key[:0]
	return r.flush(ctx, pruneBatch)
}

// ask decides about the records of objects that may have expired, if there are so many.
func (r *prune) ask(ctx context.Context, least int) error {
	if len(r.asked) < least {
		return nil
	}
	keys := make([]object.Key, len(r.asked))
	for i, names := range r.asked {
		keys[i] = names[0].Key
	}
	present, err := r.pruner.store.Present(ctx, 0, keys)
	if err != nil {
		return err
	}
	for i, names := range r.asked {
		r.decide(names, present[i] != nil)
	}
	r.asked = nil
	return r.flush(ctx, pruneBatch)
}

// decide decides about the records of a key, newest first. They are removed in the opposite order, so that the
// rest has no gap if the run does not come to its end, and still ends with a deletion.
func (r *prune) decide(names []Name, exists bool) {
	keep, versions := 2, 0
	if !exists {
		keep = 0
	}
	var removed []Name
	for i, name := range names {
		if name.Kind.IsReencryption() {
			// A newer record continues the chain, or the object is gone and its records end.
			if i > 0 || !exists && name.Time.Before(r.oldest) {
				removed = append(removed, name)
			}
			continue
		}
		versions++
		tooOld := name.Time.Before(r.oldest)
		if versions > keep && (tooOld && (exists || names[0].Time.Before(r.oldest)) || versions > max(r.pruner.limits.Versions, keep)) {
			removed = append(removed, name)
			continue
		}
		r.records++
		r.bytes += int64(name.Size)
		if versions > keep {
			age := r.now.Sub(name.Time)
			if !exists {
				age = min(age, r.now.Sub(names[0].Time)) // it stays until the deletion is too old
			}
			r.removable.add(age, name.Size)
		}
	}
	for _, name := range slices.Backward(removed) {
		r.remove = append(r.remove, name.RecordKey(), name.IndexKey())
	}
}

// flush removes the keys, if there are so many.
func (r *prune) flush(ctx context.Context, least int) error {
	if len(r.remove) < least {
		return nil
	}
	if err := r.pruner.store.Remove(ctx, r.remove); err != nil {
		return err
	}
	const keys = 2 // of a record
	r.pruner.note(func(c *Counts) { c.Removed += int64(len(r.remove) / keys) })
	r.remove = r.remove[:0]
	return nil
}

// ages has the bytes of records by their age. The classes grow by a hundredth.
type ages map[int]int64

func (a *ages) add(age time.Duration, bytes int) {
	if *a == nil {
		*a = ages{}
	}
	(*a)[int(math.Log(max(1, age.Seconds()))*100)] += int64(bytes)
}

// cut returns an age: the older records have so many bytes, or all records are older.
func (a ages) cut(bytes int64) time.Duration {
	var classes []int
	for class := range a {
		classes = append(classes, class)
	}
	slices.Sort(classes)
	for _, class := range slices.Backward(classes) {
		if bytes -= a[class]; bytes <= 0 {
			return time.Duration(math.Exp(float64(class)/100) * float64(time.Second))
		}
	}
	return 0
}
