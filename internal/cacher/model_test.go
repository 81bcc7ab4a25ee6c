package cacher_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/fanoutd/fanoutd/internal/cacher"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/wire"
	"github.com/fanoutd/fanoutd/test/cachertest"
)

// Whatever happens to the store, every state equals that of the naive model.
func TestStateEqualsTheNaiveModel(t *testing.T) {
	happened := map[string]int{}
	rapid.Check(t, func(t *rapid.T) {
		rapid.SyncTest(t, func(t *rapid.T) {
			m := newMachine(t, happened)
			t.Repeat(map[string]func(*rapid.T){
				"":        m.check,
				"write":   m.write,
				"flood":   m.flood,
				"rest":    m.rest,
				"silence": m.silence,
				"compact": m.compact,
				"outage":  m.outage,
				"stumble": m.stumble,
				"restart": m.restart,
				"restore": m.restore,
			})
		})
	})
	t.Log(happened)
	if testing.Short() {
		return // too few rounds to reach every case
	}
	for _, what := range []string{
		"window cut by age", "window cut by number", "window cut by bytes", "window kept at its floor",
		"listed again", "positions in a gap", "more deletions than tombstones",
		"another epoch", "filled from history",
	} {
		if happened[what] == 0 {
			t.Errorf("the test never reached the case %q", what)
		}
	}
}

// machine is a cacher with its store and a model of both.
type machine struct {
	store      *cachertest.Memory
	limits     cacher.WindowLimits
	tombstones int
	pageSize   int
	happened   map[string]int
	random     *rand.Rand // chooses what to compare

	cacher *cacher.Cacher
	end    func()

	naive   *naive
	epoch   object.Epoch
	relists int64         // of the cacher, as the model knows
	seen    *cacher.State // the last state that was compared
	checked time.Time     // when it was compared
	kept    []keptState
}

// keptState is an older state with its contents when it was new.
type keptState struct {
	*cacher.State
	contents string
}

var keys = []object.Key{"a", "a/b", "ab", "a/b/0", "a/b/1", "a/b/2", "a/c", "b/0", "b/1", "c", "d/e/f", "é"}

func newMachine(t *rapid.T, happened map[string]int) *machine {
	m := &machine{
		store:      cachertest.NewMemory(),
		tombstones: rapid.IntRange(1, 8).Draw(t, "tombstones"),
		pageSize:   rapid.IntRange(1, 5).Draw(t, "page size"),
		happened:   happened,
		random:     rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "looks"), 0)),
		checked:    time.Now(),
		epoch:      "e1",
	}
	m.limits.MinChanges = rapid.IntRange(1, 12).Draw(t, "floor")
	m.limits.MaxChanges = m.limits.MinChanges + rapid.IntRange(0, 30).Draw(t, "more")
	m.limits.MaxBytes = rapid.SampledFrom([]int{4 << 10, 16 << 10, 1 << 20}).Draw(t, "bytes")
	m.limits.Freshness = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "freshness")
	m.start()
	t.Cleanup(func() { m.end() })
	return m
}

// start starts a cacher. It fills from the oldest revision that its limits allow.
func (m *machine) start() {
	codec, _ := object.CodecByName("raw")
	m.cacher = cacher.New(cacher.Config{
		Resource: "test", Store: m.store, Codec: codec, Preencode: wire.Preencode, Window: m.limits,
		MaxTombstones: m.tombstones, PageSize: m.pageSize, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.cacher.Run(ctx) })
	m.end = func() { cancel(); running.Wait() }
	m.startOver()
}

// startOver resets the model for a cacher that fills again.
func (m *machine) startOver() {
	now := m.store.Now()
	var compacted object.Revision
	m.store.Change(func() { compacted = m.store.Compacted })
	from := max(1, now-object.Revision(10*m.limits.MaxChanges), compacted)
	if from > 1 {
		m.happened["filled from history"]++
	}
	m.naive, m.seen, m.relists = newNaive(m.limits, m.tombstones, from), nil, m.cacher.Counts().Relists
}

// Actions.

func (m *machine) write(t *rapid.T) { m.commits(t, rapid.IntRange(1, 5).Draw(t, "commits")) }
func (m *machine) flood(t *rapid.T) { m.commits(t, rapid.IntRange(10, 30).Draw(t, "commits")) }

// commits writes n transactions of several keys, one key, or none. The last stand for
// writes to other resources.
func (m *machine) commits(t *rapid.T, n int) {
	for range n {
		writes := map[object.Key][]byte{}
		for range rapid.SampledFrom([]int{0, 1, 1, 1, 2, 5}).Draw(t, "keys") {
			key := rapid.SampledFrom(keys).Draw(t, "key")
			switch value := rapid.IntRange(-3, 5).Draw(t, "value"); {
			case value < 0:
				writes[key] = nil
			case value == 5:
				writes[key] = []byte(strings.Repeat("v", 500))
			default:
				writes[key] = []byte(strings.Repeat("v", value))
			}
		}
		m.store.Commit(writes)
	}
}

func (m *machine) rest(t *rapid.T) {
	time.Sleep(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Second, 10 * time.Second, 5 * time.Minute}).Draw(t, "time"))
}

// silence makes the watches silent for a while.
func (m *machine) silence(t *rapid.T) {
	m.store.Change(func() { m.store.Quiet = true })
	m.write(t)
	m.rest(t)
	m.compare(t)
	m.store.Change(func() { m.store.Quiet = false })
	time.Sleep(10 * time.Second) // the cacher may have given up the watch
}

// compact compacts the store, sometimes beyond what the cacher has read. Sometimes calls
// fail meanwhile.
func (m *machine) compact(t *rapid.T) {
	m.store.Change(func() { m.store.Quiet = rapid.IntRange(0, 3).Draw(t, "quiet") > 0 })
	m.commits(t, rapid.IntRange(0, 10).Draw(t, "commits"))
	m.rest(t)
	m.compare(t)
	now := m.store.Now()
	m.store.Change(func() {
		back := object.Revision(rapid.IntRange(0, 10).Draw(t, "back"))
		m.store.Compacted = max(m.store.Compacted, now-back, 1)
		m.store.Quiet = false
		if rapid.Bool().Draw(t, "faults") {
			m.failing(t)
		}
	})
	m.compare(t)
	m.write(t)
	m.compare(t)
	m.settle()
}

// outage makes the store unavailable for a while. It may be compacted meanwhile.
func (m *machine) outage(t *rapid.T) {
	m.store.Change(func() { m.store.Down = object.ErrUnavailable })
	m.write(t)
	m.compare(t)
	if m.cacher.Following() {
		t.Error("following a store that is away: got true, want false")
	}
	now := m.store.Now()
	if rapid.Bool().Draw(t, "compacted") {
		m.store.Change(func() { m.store.Compacted = now })
	}
	m.store.Change(func() { m.store.Down = nil })
	m.settle()
}

// stumble makes some of the next calls of the store fail.
func (m *machine) stumble(t *rapid.T) {
	m.store.Change(func() { m.failing(t) })
	m.write(t)
	m.settle()
}

// failing makes some of the next calls of the store fail. The caller holds the mutex of the
// store.
func (m *machine) failing(t *rapid.T) {
	fails := rapid.SliceOfN(rapid.Bool(), 1, 12).Draw(t, "fails")
	m.store.Fault = func(string) error {
		if len(fails) == 0 {
			return nil
		}
		fail := fails[0]
		fails = fails[1:]
		if fail {
			return object.ErrUnavailable
		}
		return nil
	}
}

// restart replaces the cacher. Its first state must be the present one.
func (m *machine) restart(t *rapid.T) {
	m.end()
	m.commits(t, rapid.IntRange(0, 3).Draw(t, "commits"))
	m.store.Change(func() { m.store.Quiet = true })
	m.start()
	m.settle()
	if s := m.cacher.State(); s != nil && s.Revision() < m.store.Now() {
		t.Fatalf("first state after a restart: got revision %d, want %d", s.Revision(), m.store.Now())
	}
	m.store.Change(func() { m.store.Quiet = false })
	m.settle()
}

// restore replaces the store by one of another epoch.
func (m *machine) restore(t *rapid.T) {
	m.store.Change(func() { m.store.Down = object.ErrUnavailable })
	synctest.Wait()
	m.epoch += "'"
	m.store.Restart(m.epoch)
	m.commits(t, rapid.IntRange(0, 20).Draw(t, "commits"))
	m.store.Change(func() { m.store.Down = nil })
	m.startOver()
	m.settle()
	m.happened["another epoch"]++
}

// settle waits longer than the backoff of the cacher.
func (m *machine) settle() {
	time.Sleep(2 * time.Minute)
	m.store.Change(func() { m.store.Fault = nil })
}

// Checks.

// check compares the newest state after the cacher has caught up with a healthy store.
func (m *machine) check(t *rapid.T) {
	m.compare(t)
	if !m.cacher.Following() {
		t.Fatal("following: got false, want true")
	}
	s, err := m.cacher.Read(context.Background(), object.Consistency{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Revision() != m.store.Now() {
		t.Fatalf("read at revision: got %d, want %d", s.Revision(), m.store.Now())
	}
	if s != m.seen {
		m.compare(t)
	}
}

// compare compares the present state with the model.
func (m *machine) compare(t *rapid.T) {
	synctest.Wait()
	s := m.cacher.State()
	m.advance(t, s)
	m.checkObjects(t, s)
	m.checkWindow(t, s)
	m.checkHistory(t, s)
	m.checkChangeIndex(t, s)
	m.checkFrozen(t, s)
	m.checked = time.Now()
}

// advance brings the model to the revision of the state.
func (m *machine) advance(t *rapid.T, s *cacher.State) {
	now := time.Now()
	n := m.naive
	if s.Position().Epoch != m.epoch {
		t.Fatalf("epoch: got %q, want %q", s.Position().Epoch, m.epoch)
	}
	if s != m.seen {
		n.since = m.checked
		m.seen = s
	}
	n.learn(m.store.History())
	if relists := m.cacher.Counts().Relists; relists != m.relists {
		var compacted object.Revision
		m.store.Change(func() { compacted = m.store.Compacted })
		if at := m.store.Now(); n.at >= compacted || s.Revision() != at {
			t.Fatalf("relisted at %d: the cacher was at %d, the store is compacted at %d and at revision %d", s.Revision(), n.at, compacted, at)
		}
		n.relist(s.Revision())
		m.relists = relists
		m.happened["listed again"]++
	}
	if s.Revision() < n.at {
		t.Fatalf("revision: got %d after %d", s.Revision(), n.at)
	}
	n.follow(s.Revision(), m.checked, now)
}

func (m *machine) checkObjects(t *rapid.T, s *cacher.State) {
	if got, want := s.Len(), len(m.naive.now()); got != want {
		t.Fatalf("objects: got %d, want %d", got, want)
	}
	scope, start := m.scope(), m.key()
	same(t, "objects", s.Objects(scope, start), m.naive.objects(s.Revision(), scope, start))
	for _, key := range keys {
		if diff := differ(m.naive.now()[key], s.Get(key)); diff != "" {
			t.Fatalf("Get %q: %s", key, diff)
		}
	}
}

// checkWindow checks the changes in the window, and that its limits explain its size.
func (m *machine) checkWindow(t *rapid.T, s *cacher.State) {
	n, now := m.naive, time.Now()
	oldest := object.Revision(0)
	for _, ok := s.Changes(oldest); !ok; _, ok = s.Changes(oldest) {
		oldest++
	}
	if got := s.Replayable(); got != oldest {
		t.Fatalf("replayable: got %d, want %d", got, oldest)
	}
	dropped := len(n.changes) - s.WindowLen()
	if dropped < 0 {
		t.Fatalf("changes in the window: got %d, want at most %d", s.WindowLen(), len(n.changes))
	}
	kept := n.changes[dropped:]
	from := n.oldest
	if dropped > 0 {
		from = n.changes[dropped-1].Revision
	}
	if oldest != from {
		t.Fatalf("start of the window of %d changes: got %d, want %d", len(kept), oldest, from)
	}
	after := oldest + object.Revision(m.random.IntN(int(s.Revision()-oldest)+1))
	for _, after := range []object.Revision{oldest, after} {
		changes, ok := s.Changes(after)
		if !ok {
			t.Fatalf("changes after %d: got false although there are changes after %d", after, oldest)
		}
		rest := kept[slices.IndexFunc(append(kept, arrivedChange{Change: object.Change{Revision: after + 1}}), func(c arrivedChange) bool { return c.Revision > after }):]
		for c := range changes {
			if len(rest) == 0 || !sameChange(&rest[0].Change, c) {
				t.Fatalf("changes after %d: got %s, want %v", after, showChange(c), rest)
			}
			rest = rest[1:]
		}
		if len(rest) > 0 {
			t.Fatalf("changes after %d: missing %s", after, showChange(&rest[0].Change))
		}
	}

	l := n.limits
	if len(kept) > l.MaxChanges || size(kept) > l.MaxBytes {
		t.Fatalf("window: got %d changes and %d bytes, its limits are %+v", len(kept), size(kept), l)
	}
	if dropped > 0 {
		first := dropped - 1
		for first > 0 && n.changes[first-1].Revision == from {
			first--
		}
		if n.changes[dropped-1].Revision == n.changes[min(dropped, len(n.changes)-1)].Revision && len(kept) > 0 {
			t.Fatalf("the window begins in the middle of revision %d", from)
		}
		// The window with the revision that was dropped last.
		more := n.changes[first:]
		tooMany, tooLarge := len(more) > l.MaxChanges, size(more) > l.MaxBytes
		tooOld := len(kept) >= l.MinChanges && now.Sub(more[0].earliest) > l.Freshness
		switch {
		case tooMany:
			m.happened["window cut by number"]++
		case tooLarge:
			m.happened["window cut by bytes"]++
		case tooOld:
			m.happened["window cut by age"]++
		default:
			t.Fatalf("revision %d was dropped from a window of %d changes, %d bytes and %v; its limits are %+v",
				from, len(more), size(more), now.Sub(more[0].earliest), l)
		}
	}
	if len(kept) > 0 {
		old := n.since.Sub(kept[0].latest) > l.Freshness
		floor := len(kept)-len(n.revisionAt(dropped)) < l.MinChanges
		switch {
		case old && floor:
			m.happened["window kept at its floor"]++
		case old:
			t.Fatalf("a window of %d changes kept revision %d for %v; its limits are %+v",
				len(kept), kept[0].Revision, n.since.Sub(kept[0].latest), l)
		}
	}
}

// checkHistory checks the states at older revisions, from the window and from the store.
func (m *machine) checkHistory(t *rapid.T, s *cacher.State) {
	n := m.naive
	var compacted object.Revision
	down := false
	m.store.Change(func() { compacted, down = m.store.Compacted, m.store.Down != nil || m.store.Fault != nil })
	for at := object.Revision(1); at <= s.Revision()+1; at++ {
		if at > s.Replayable()+1 && at < s.Revision()-1 && m.random.IntN(8) > 0 {
			continue
		}
		scope, start := m.scope(), m.key()
		objects, ok := s.ObjectsAt(at, scope, start)
		if ok != (at >= s.Replayable()) {
			t.Fatalf("state at %d: got %v; replayable after %d", at, ok, s.Replayable())
		}
		count, counted := s.CountAt(at, scope, start)
		if counted != ok {
			t.Fatalf("objects at %d: can count: %v, can list: %v", at, counted, ok)
		}
		if ok {
			want := n.objects(min(at, s.Revision()), scope, start)
			same(t, fmt.Sprint("objects at ", at), objects, want)
			if count != len(want) {
				t.Fatalf("count of %v from %q on at %d: got %d, want %d", scope, start, at, count, len(want))
			}
		}
		if down || at > s.Revision() || m.random.IntN(20) > 0 {
			continue
		}
		var all []*object.Object
		var err error
		for o, e := range m.cacher.History(context.Background(), at, scope, start) {
			if err = e; err == nil {
				all = append(all, o)
			}
		}
		if at < compacted {
			if !errors.Is(err, object.ErrCompacted) {
				t.Fatalf("history at %d of a store compacted at %d: got %v", at, compacted, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprint("history at ", at), slices.Values(all), n.objects(at, scope, start))
	}
}

// checkChangeIndex checks HasDelta at every revision, and the differences of some.
func (m *machine) checkChangeIndex(t *rapid.T, s *cacher.State) {
	n := m.naive
	for after := object.Revision(1); after <= s.Revision(); after++ {
		want := n.hasDelta(after)
		if got := s.HasDelta(after); got != want {
			t.Fatalf("delta after %d: got %v, want %v", after, got, want)
		}
		if after < n.floor {
			m.happened["more deletions than tombstones"]++
		}
		if slices.ContainsFunc(n.gaps, func(g gap) bool { return g.after < after && after < g.until }) {
			m.happened["positions in a gap"]++
		}
		if !want || m.random.IntN(6) > 0 && after != n.relisted() && s.HasDelta(after-1) {
			continue
		}
		scope := m.scope()
		all := slices.Collect(s.Since(after, scope, cacher.ChangeID{}))
		m.checkDifferences(t, fmt.Sprintf("%v after %d", scope, after), all, n.difference(after, scope))
		var pages []cacher.Difference
		for more := true; more; {
			more = false
			var last cacher.ChangeID
			if len(pages) > 0 {
				last = pages[len(pages)-1].ChangeID
			}
			left := 1 + m.random.IntN(4)
			for d := range s.Since(after, scope, last) {
				pages = append(pages, d)
				if left--; left == 0 {
					more = true
					break
				}
			}
		}
		if !slices.Equal(pages, all) {
			t.Fatalf("differences in pages: got %v, want %v", pages, all)
		}
	}
}

func (m *machine) checkDifferences(t *rapid.T, what string, got, want []cacher.Difference) {
	for i, d := range got {
		if i == len(want) {
			t.Fatalf("%s: unexpected %+v", what, d)
		}
		w := want[i]
		if d.ChangeID != w.ChangeID {
			t.Fatalf("%s: got %+v, want %+v", what, d.ChangeID, w.ChangeID)
		}
		if diff := differ(w.Object, d.Object); diff != "" {
			t.Fatalf("%s: %+v: %s", what, d.ChangeID, diff)
		}
	}
	if len(got) < len(want) {
		t.Fatalf("%s: missing %+v", what, want[len(got)].ChangeID)
	}
}

// checkFrozen checks that older states do not change.
func (m *machine) checkFrozen(t *rapid.T, s *cacher.State) {
	if m.random.IntN(4) > 0 {
		return
	}
	for _, k := range m.kept {
		if now := contents(k.State); now != k.contents {
			t.Fatalf("state at %d after a newer one at %d: got %s, want %s", k.Revision(), s.Revision(), now, k.contents)
		}
	}
	m.kept = append(m.kept[max(0, len(m.kept)-3):], keptState{s, contents(s)})
}

// contents describes a state.
func contents(s *cacher.State) string {
	var b strings.Builder
	fmt.Fprint(&b, s.Position(), s.Len(), s.WindowLen(), s.Replayable())
	for o := range s.Objects(object.Scope{}, "") {
		fmt.Fprint(&b, " ", o.Key, "@", o.ModRevision)
	}
	if changes, ok := s.Changes(s.Replayable()); ok {
		for c := range changes {
			fmt.Fprint(&b, " ", c.Key, "@", c.Revision, c.New == nil)
		}
	}
	for after := range s.Revision() {
		if !s.HasDelta(after) || after%7 > 0 {
			continue
		}
		fmt.Fprint(&b, " after ", after)
		for d := range s.Since(after, object.Scope{}, cacher.ChangeID{}) {
			fmt.Fprint(&b, " ", d.ChangeID, d.Object == nil)
		}
	}
	return b.String()
}

func (m *machine) scope() object.Scope {
	paths := []string{"a", "a/b", "b", "zz"}
	switch i := m.random.IntN(len(paths) + 4); {
	case i < len(paths):
		scope, _ := object.ParsePrefix(paths[i])
		return scope
	case i < len(paths)+2:
		return object.ExactKey(m.key())
	}
	return object.Scope{}
}

// key returns a key to start from: one of the keys, one just after it, or none.
func (m *machine) key() object.Key {
	key := keys[m.random.IntN(len(keys))]
	switch m.random.IntN(4) {
	case 0:
		return key
	case 1:
		return key + "\x00"
	}
	return ""
}

// Comparisons.

func compareIDs(a, b cacher.ChangeID) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key))
}

func same(t *rapid.T, what string, got iter.Seq[*object.Object], want []*object.Object) {
	i := 0
	for o := range got {
		if i == len(want) {
			t.Fatalf("%s: unexpected %+v", what, o)
		}
		if diff := differ(want[i], o); diff != "" {
			t.Fatalf("%s: %s", what, diff)
		}
		i++
	}
	if i < len(want) {
		t.Fatalf("%s: missing %+v", what, want[i])
	}
}

// differ describes how two objects differ. It returns "" if they are equal.
func differ(want, got *object.Object) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("got %+v, want %+v", got, want)
}

func sameChange(want, got *object.Change) bool {
	return got.Revision == want.Revision && got.Key == want.Key && differ(want.Old, got.Old) == "" && differ(want.New, got.New) == ""
}

func showChange(c *object.Change) string {
	return fmt.Sprintf("%q at %d from %+v to %+v", c.Key, c.Revision, c.Old, c.New)
}
