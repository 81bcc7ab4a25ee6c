package scenario

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/fanoutd/fanoutd/client"

	"github.com/fanoutd/fanoutd/bench/internal/delivery"
	"github.com/fanoutd/fanoutd/bench/internal/load"
	"github.com/fanoutd/fanoutd/bench/internal/peer"
	"github.com/fanoutd/fanoutd/bench/internal/stamp"
)

// watched is the member with the subscriber and the writer. It never leads when another one is killed.
const watched = 0

// calm is the pause after the leadership was moved.
const calm = 2 * time.Second

// clusterKill measures the delivery to a subscriber of one member before and after the kill of another one.
// Both last p.Duration for each kill. Only acknowledged writes count.
func clusterKill(ctx context.Context, programs peer.Programs, system *peer.Peer, p Parameters, o Observer) (*Record, error) {
	store, err := system.WriterAt(watched)
	if err != nil {
		return nil, err
	}
	defer store.Close()
	t := &trace{store: store, writes: map[uint64]*tracedWrite{}}
	q := p
	q.Duration, q.Watchers = 2*p.Duration, 0 // the writer does not wait for the watchers
	w := newWriter(q, t)
	o.Phase("fill")
	if err := w.fill(ctx); err != nil {
		return nil, err
	}
	if t.failed > 0 {
		return nil, fmt.Errorf("fill the store: %d writes failed", t.failed)
	}
	o.Phase("connect")
	subscriber, err := system.Subscribe(watched)
	if err != nil {
		return nil, err
	}
	defer subscriber.Close()
	stop, err := t.watch(ctx, subscriber, p.Keys)
	if err != nil {
		return nil, err
	}
	defer stop()
	r := newRecord(p, programs)
	r.Cluster = &Cluster{}
	times := newKillTimes()
	began := time.Now()
	for kill := range p.Kills {
		leader := 1 + kill%(members-1)
		victim := leader
		if p.Victim == VictimFollower {
			victim = members - leader // the other one that is not watched
		}
		if err := system.Lead(ctx, leader); err != nil {
			return nil, err
		}
		if err := wait(ctx, calm); err != nil {
			return nil, err
		}
		t.reset()
		o.Phase(fmt.Sprintf("kill %d", kill+1))
		killed, err := t.killDuring(ctx, w, p.Duration, func() { system.Kill(victim) })
		if err != nil {
			return nil, err
		}
		t.awaitAcknowledged(ctx)
		t.collect(r, times, killed)
		if err := system.Start(ctx, victim); err != nil {
			return nil, err
		}
	}
	r.Elapsed = time.Since(began)
	times.addTo(r.Cluster)
	r.Writes, r.Behind, r.Ack = w.writes.Load(), w.behind.Load(), w.ack.Summary()
	for _, s := range system.Servers {
		r.Servers = append(r.Servers, Server{Name: s.Name})
	}
	return r, nil
}

// killTimes are the times of deliveries from the write and from its acknowledgement.
type killTimes struct{ before, around, ackBefore, ackAround delivery.Latency }

func newKillTimes() *killTimes {
	return &killTimes{delivery.NewLatency(), delivery.NewLatency(), delivery.NewLatency(), delivery.NewLatency()}
}

func (t *killTimes) addTo(c *Cluster) {
	c.Before, c.Around = t.before.Summary(), t.around.Summary()
	c.AckOf = Lags{t.ackBefore.Summary(), t.ackAround.Summary()}
}

// trace is a writer that keeps going when a write fails, and remembers when its writes were acknowledged and
// delivered.
type trace struct {
	store peer.Writer

	mu       sync.Mutex              // guards the following
	writes   map[uint64]*tracedWrite // since the last reset, by event
	failed   int64
	refused  int64
	replaced int64
}

// tracedWrite has times of stamp.Now, or 0.
type tracedWrite struct{ began, acked, arrived int64 }

// Write implements peer.Writer. It reports no error, so that other writes go on.
func (t *trace) Write(ctx context.Context, changes []peer.Change) error {
	for _, c := range changes {
		for s := range stamp.All(c.Value) {
			t.note(s.Event, func(w *tracedWrite) { w.began = s.Written })
		}
	}
	call, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	if err := t.store.Write(call, changes); err != nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.failed++
		if peer.NotApplied(err) {
			t.refused++
		}
		return nil
	}
	at := stamp.Now()
	for _, c := range changes {
		for s := range stamp.All(c.Value) {
			t.note(s.Event, func(w *tracedWrite) { w.acked = at })
		}
	}
	return nil
}

// Close implements peer.Writer.
func (t *trace) Close() error { return t.store.Close() }

// note changes what is known about the write of an event.
func (t *trace) note(event uint64, change func(*tracedWrite)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	w, ok := t.writes[event]
	if !ok {
		w = &tracedWrite{}
		t.writes[event] = w
	}
	change(w)
}

func (t *trace) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	clear(t.writes)
}

// watch opens a watch for each key, from now on, and returns when all have begun. Stop ends them.
func (t *trace) watch(ctx context.Context, c *client.Client, keys int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var watching, begun sync.WaitGroup
	failed := make(chan error, keys)
	begun.Add(keys)
	for key := range keys {
		watching.Go(func() {
			started := sync.OnceFunc(begun.Done)
			defer started()
			for u, err := range c.Resource(load.Resource).Watch(ctx, client.Key(load.Key(key))) {
				if err != nil {
					failed <- err
					return
				}
				t.receive(u)
				if u.Phase.Complete() {
					started()
				}
			}
		})
	}
	begun.Wait()
	stop = func() {
		cancel()
		watching.Wait()
	}
	select {
	case err := <-failed:
		stop()
		return nil, fmt.Errorf("watch at member %d: %w", watched+1, err)
	default:
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.replaced = 0 // without the states at the beginning
	return stop, nil
}

// receive notes the first arrival of each event.
func (t *trace) receive(u *client.Update) {
	at := stamp.Now()
	if u.Phase == client.PhaseReset {
		t.mu.Lock()
		t.replaced++
		t.mu.Unlock()
	}
	for i := range u.Events {
		if object := u.Events[i].Object; object != nil {
			for s := range stamp.All(object.Value) {
				t.note(s.Event, func(w *tracedWrite) {
					if w.arrived == 0 {
						w.arrived = at
					}
				})
			}
		}
	}
}

// killDuring writes at the rate, and kills after a while. It returns the time of the kill, when the writes have ended.
func (t *trace) killDuring(ctx context.Context, w *writer, after time.Duration, kill func()) (killed int64, err error) {
	var killing sync.WaitGroup
	killing.Go(func() {
		if wait(ctx, after) == nil {
			killed = stamp.Now()
			kill()
		}
	})
	err = w.run(ctx)
	killing.Wait()
	return killed, err
}

// awaitAcknowledged waits until the acknowledged writes have arrived, but not forever.
func (t *trace) awaitAcknowledged(ctx context.Context) {
	for ended := time.Now().Add(deliveryTimeout); time.Now().Before(ended) && t.missing() > 0; {
		if wait(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// missing returns the number of acknowledged writes that have not arrived.
func (t *trace) missing() (n int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.writes {
		if w.acked != 0 && w.arrived == 0 {
			n++
		}
	}
	return n
}

// collect adds the acknowledged writes. Those that were under way during the kill count as after it.
func (t *trace) collect(r *Record, times *killTimes, killed int64) {
	lost := t.missing()
	r.Counts.Lost += lost
	r.Expected += lost
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, w := range t.writes {
		if w.began == 0 || w.acked == 0 || w.arrived == 0 {
			continue
		}
		r.Deliveries++
		r.Counts.Received++
		r.Expected++
		all, ack := times.before, times.ackBefore
		if w.arrived >= killed || w.acked >= killed {
			all, ack = times.around, times.ackAround
		}
		all.Record(w.arrived - w.began)
		ack.Record(w.arrived - w.acked) // an event may arrive first
	}
	r.Cluster.Failed, r.Cluster.Refused, r.Cluster.Replaced = t.failed, t.refused, t.replaced
}
