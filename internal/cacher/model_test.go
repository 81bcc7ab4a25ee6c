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

// Whatever happens to the store, everything that a state says is what the naive
// model says that has to be known.
func TestStateIsThatOfTheNaiveModel(t *testing.T) {
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
		return // too few rounds to have seen everything
	}
	for _, what := range []string{
		"window cut by age", "window cut by number", "window cut by bytes", "window kept at its floor",
		"listed again", "positions in a gap", "more deletions than tombstones",
		"another epoch", "filled from history",
	} {
		if happened[what] == 0 {
			t.Errorf("the test is too easy: it never saw %q", what)
		}
	}
}

// machine is a cacher, its store, and what is known of both.
type machine struct {
	store    *cachertest.Memory
	limits   cacher.WindowLimits
	graves   int
	pageSize int
	happened map[string]int
	random   *rand.Rand // for what to look at

	cacher *cacher.Cacher
	end    func()

	naive   *naive
	epoch   object.Epoch
	seen    *cacher.State
	checked time.Time
	kept    []kept
}

// kept is a state that is kept for a while, and what it said when it was new.
type kept struct {
	*cacher.State
	said string
}

var keys = []object.Key{"a", "a/b", "ab", "a/b/0", "a/b/1", "a/b/2", "a/c", "b/0", "b/1", "c", "d/e/f", "é"}

func newMachine(t *rapid.T, happened map[string]int) *machine {
	m := &machine{
		store:    cachertest.NewMemory(),
		graves:   rapid.IntRange(1, 8).Draw(t, "tombstones"),
		pageSize: rapid.IntRange(1, 5).Draw(t, "page size"),
		happened: happened,
		random:   rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "looks"), 0)),
		checked:  time.Now(),
		epoch:    "e1",
	}
	m.limits.MinChanges = rapid.IntRange(1, 12).Draw(t, "floor")
	m.limits.MaxChanges = m.limits.MinChanges + rapid.IntRange(0, 30).Draw(t, "more")
	m.limits.MaxBytes = rapid.SampledFrom([]int{4 << 10, 16 << 10, 1 << 20}).Draw(t, "bytes")
	m.limits.Freshness = rapid.SampledFrom([]time.Duration{time.Second, time.Minute}).Draw(t, "freshness")
	m.start()
	t.Cleanup(func() { m.end() })
	return m
}

// start starts a cacher, which begins as far back as it may.
func (m *machine) start() {
	codec, _ := object.CodecByName("raw")
	m.cacher = cacher.New(cacher.Config{
		Resource: "test", Store: m.store, Codec: codec, Preencode: wire.Preencode, Window: m.limits,
		MaxTombstones: m.graves, PageSize: m.pageSize, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { m.cacher.Run(ctx) })
	m.end = func() { cancel(); running.Wait() }
	m.filled()
}

// filled says that the cacher begins anew.
func (m *machine) filled() {
	now := m.store.Now()
	var compacted object.Revision
	m.store.Change(func() { compacted = m.store.Compacted })
	from := max(1, now-object.Revision(10*m.limits.MaxChanges), compacted)
	if from > 1 {
		m.happened["filled from history"]++
	}
	m.naive, m.seen = newNaive(m.limits, m.graves, from), nil
}

// What happens.

func (m *machine) write(t *rapid.T) { m.commits(t, rapid.IntRange(1, 5).Draw(t, "commits")) }
func (m *machine) flood(t *rapid.T) { m.commits(t, rapid.IntRange(10, 30).Draw(t, "commits")) }

// commits writes transactions of several keys, of one, and of none: those of other
// resources.
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

// silence is a store that says nothing for a while, although it is asked.
func (m *machine) silence(t *rapid.T) {
	m.store.Change(func() { m.store.Quiet = true })
	m.write(t)
	m.rest(t)
	m.look(t)
	m.store.Change(func() { m.store.Quiet = false })
	time.Sleep(10 * time.Second) // the watch may just have been given up
}

// compact is a store that forgets, now and then more than the cacher has read, and
// sometimes fails while it is listed.
func (m *machine) compact(t *rapid.T) {
	m.store.Change(func() { m.store.Quiet = rapid.IntRange(0, 3).Draw(t, "quiet") > 0 })
	m.commits(t, rapid.IntRange(0, 10).Draw(t, "commits"))
	m.rest(t)
	m.look(t)
	now := m.store.Now()
	m.store.Change(func() {
		back := object.Revision(rapid.IntRange(0, 10).Draw(t, "back"))
		m.store.Compacted = max(m.store.Compacted, now-back, 1)
		m.store.Quiet = false
		if rapid.Bool().Draw(t, "faults") {
			m.failing(t)
		}
	})
	m.look(t)
	m.write(t)
	m.look(t)
	m.settle()
}

// outage is a store that is away. What it does meanwhile is seen afterwards.
func (m *machine) outage(t *rapid.T) {
	m.store.Change(func() { m.store.Down = object.ErrUnavailable })
	m.write(t)
	m.look(t)
	if m.cacher.Following() {
		t.Error("follows a store that is away")
	}
	now := m.store.Now()
	if rapid.Bool().Draw(t, "compacted") {
		m.store.Change(func() { m.store.Compacted = now })
	}
	m.store.Change(func() { m.store.Down = nil })
	m.settle()
}

// stumble is a store some of whose next calls fail.
func (m *machine) stumble(t *rapid.T) {
	m.store.Change(func() { m.failing(t) })
	m.write(t)
	m.settle()
}

// failing has some of the next calls of the store fail. It is called with the
// mutex of the store held.
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

// restart is that of the cacher. What it serves first is the present.
func (m *machine) restart(t *rapid.T) {
	m.end()
	m.commits(t, rapid.IntRange(0, 3).Draw(t, "commits"))
	m.store.Change(func() { m.store.Quiet = true })
	m.start()
	m.settle()
	if s := m.cacher.State(); s != nil && s.Revision() < m.store.Now() {
		t.Fatalf("serves the state at %d, the store is at %d", s.Revision(), m.store.Now())
	}
	m.store.Change(func() { m.store.Quiet = false })
	m.settle()
}

// restore is another store in the place of this one.
func (m *machine) restore(t *rapid.T) {
	m.store.Change(func() { m.store.Down = object.ErrUnavailable })
	synctest.Wait()
	m.epoch += "'"
	m.store.Restart(m.epoch)
	m.commits(t, rapid.IntRange(0, 20).Draw(t, "commits"))
	m.store.Change(func() { m.store.Down = nil })
	m.filled()
	m.settle()
	m.happened["another epoch"]++
}

// settle waits for longer than it takes to try again.
func (m *machine) settle() {
	time.Sleep(2 * time.Minute)
	m.store.Change(func() { m.store.Fault = nil })
}

// What has to be.

// check looks at the newest state of a store that is well.
func (m *machine) check(t *rapid.T) {
	m.look(t)
	if !m.cacher.Following() {
		t.Fatal("does not follow the store")
	}
	s, err := m.cacher.Read(context.Background(), cacher.Consistency{})
	if err != nil {
		t.Fatal(err)
	}
	if s.Revision() != m.store.Now() {
		t.Fatalf("read at revision %d, the store is at %d", s.Revision(), m.store.Now())
	}
	if s != m.seen {
		m.look(t)
	}
}

// look compares the present state with the model.
func (m *machine) look(t *rapid.T) {
	synctest.Wait()
	s := m.cacher.State()
	m.advance(t, s)
	m.checkObjects(t, s)
	m.checkWindow(t, s)
	m.checkPast(t, s)
	m.checkTraces(t, s)
	m.checkFrozen(t, s)
	m.checked = time.Now()
}

// advance brings the model to the state.
func (m *machine) advance(t *rapid.T, s *cacher.State) {
	now := time.Now()
	n := m.naive
	if s.Position().Epoch != m.epoch {
		t.Fatalf("the epoch is %q, the store's is %q", s.Position().Epoch, m.epoch)
	}
	if s != m.seen {
		n.since = m.checked
		m.seen = s
	}
	n.learn(m.store.History())
	if at := s.Relisted(); at != n.relisted() {
		var compacted object.Revision
		m.store.Change(func() { compacted = m.store.Compacted })
		if n.at >= compacted || at != m.store.Now() {
			t.Fatalf("listed again at %d; it was at %d, the store is compacted at %d and has come to %d", at, n.at, compacted, m.store.Now())
		}
		n.jump(at, m.checked, now)
		m.happened["listed again"]++
	}
	if s.Revision() < n.at {
		t.Fatalf("goes back from %d to %d", n.at, s.Revision())
	}
	n.follow(s.Revision(), m.checked, now)
}

func (m *machine) checkObjects(t *rapid.T, s *cacher.State) {
	if got, want := s.Len(), len(m.naive.now()); got != want {
		t.Fatalf("%d objects, want %d", got, want)
	}
	scope, start := m.scope(), m.key()
	same(t, "objects", s.Objects(scope, start), m.naive.objects(s.Revision(), scope, start))
	for _, key := range keys {
		if diff := differ(m.naive.now()[key], s.Get(key)); diff != "" {
			t.Fatalf("Get %q: %s", key, diff)
		}
	}
}

// checkWindow checks what the window has, and why it has not more and not less.
func (m *machine) checkWindow(t *rapid.T, s *cacher.State) {
	n, now := m.naive, time.Now()
	oldest := object.Revision(0)
	for _, ok := s.Changes(oldest); !ok; _, ok = s.Changes(oldest) {
		oldest++
	}
	if got, want := s.Replayable(), max(oldest, n.relisted()); got != want {
		t.Fatalf("replayable after %d, but what is known after %d is every change", got, want)
	}
	dropped := len(n.told) - s.WindowLen()
	if dropped < 0 {
		t.Fatalf("the window has %d changes of %d", s.WindowLen(), len(n.told))
	}
	kept := n.told[dropped:]
	from := n.from
	if dropped > 0 {
		from = n.told[dropped-1].Revision
	}
	if oldest != from {
		t.Fatalf("the window of %d changes reaches back to %d, not to %d", len(kept), oldest, from)
	}
	after := oldest + object.Revision(m.random.IntN(int(s.Revision()-oldest)+1))
	for _, after := range []object.Revision{oldest, after} {
		changes, ok := s.Changes(after)
		if !ok {
			t.Fatalf("changes after %d are not known, those after %d are", after, oldest)
		}
		rest := kept[slices.IndexFunc(append(kept, told{Change: object.Change{Revision: after + 1}}), func(c told) bool { return c.Revision > after }):]
		for c := range changes {
			if len(rest) == 0 || !sameChange(&rest[0].Change, c) {
				t.Fatalf("after %d there is %s, want %v", after, showChange(c), rest)
			}
			rest = rest[1:]
		}
		if len(rest) > 0 {
			t.Fatalf("after %d there is no %s", after, showChange(&rest[0].Change))
		}
	}

	l := n.limits
	if len(kept) > l.MaxChanges || size(kept) > l.MaxBytes {
		t.Fatalf("the window has %d changes and %d bytes, its limits are %+v", len(kept), size(kept), l)
	}
	if dropped > 0 {
		first := dropped - 1
		for first > 0 && n.told[first-1].Revision == from {
			first--
		}
		if n.told[dropped-1].Revision == n.told[min(dropped, len(n.told)-1)].Revision && len(kept) > 0 {
			t.Fatalf("the window begins in the middle of revision %d", from)
		}
		// With what was dropped last it would be this.
		more := n.told[first:]
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
			t.Fatalf("revision %d fell out of a window of %d changes, %d bytes and %v; its limits are %+v",
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
			t.Fatalf("a window of %d changes still had revision %d after %v; its limits are %+v",
				len(kept), kept[0].Revision, n.since.Sub(kept[0].latest), l)
		}
	}
}

// checkPast checks the states at older revisions, those of the window and those of
// the store.
func (m *machine) checkPast(t *rapid.T, s *cacher.State) {
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
			t.Fatalf("whether the state at %d is known: %v; replayable after %d", at, ok, s.Replayable())
		}
		count, counted := s.CountAt(at, scope, start)
		if counted != ok {
			t.Fatalf("whether the objects at %d can be counted: %v, and listed: %v", at, counted, ok)
		}
		if ok {
			want := n.objects(min(at, s.Revision()), scope, start)
			same(t, fmt.Sprint("objects at ", at), objects, want)
			if count != len(want) {
				t.Fatalf("there were %d objects of %v from %q on at %d, want %d", count, scope, start, at, len(want))
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
				t.Fatalf("history at %d of a store compacted at %d: %v", at, compacted, err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		same(t, fmt.Sprint("history at ", at), slices.Values(all), n.objects(at, scope, start))
	}
}

// checkTraces checks of which revisions it is claimed to be known what became of
// everything since, that this is neither wrong nor too modest, and what it was.
func (m *machine) checkTraces(t *rapid.T, s *cacher.State) {
	n := m.naive
	for after := object.Revision(1); after <= s.Revision(); after++ {
		want := n.deltable(after)
		if got := s.HasDelta(after); got != want {
			t.Fatalf("whether it is known what happened after %d: %v, want %v", after, got, want)
		}
		if after < n.floor {
			m.happened["more deletions than tombstones"]++
		}
		if slices.ContainsFunc(n.gaps, func(g jump) bool { return g.after < after && after < g.until }) {
			m.happened["positions in a gap"]++
		}
		if !want || m.random.IntN(6) > 0 && after != n.relisted() && s.HasDelta(after-1) {
			continue
		}
		scope := m.scope()
		all := slices.Collect(s.Since(after, scope, cacher.ChangeID{}))
		m.checkDifferences(t, fmt.Sprintf("%v after %d", scope, after), all, n.changed(after, scope))
		var pages []cacher.Difference
		for more := true; more; {
			more = false
			var mark cacher.ChangeID
			if len(pages) > 0 {
				mark = pages[len(pages)-1].ChangeID
			}
			left := 1 + m.random.IntN(4)
			for d := range s.Since(after, scope, mark) {
				pages = append(pages, d)
				if left--; left == 0 {
					more = true
					break
				}
			}
		}
		if !slices.Equal(pages, all) {
			t.Fatalf("in pages %v, at once %v", pages, all)
		}
	}
}

func (m *machine) checkDifferences(t *rapid.T, what string, got []cacher.Difference, want []became) {
	for i, d := range got {
		if i == len(want) {
			t.Fatalf("%s: there should be no %+v", what, d)
		}
		w := want[i]
		if d.ChangeID != w.ChangeID {
			t.Fatalf("%s: %+v comes where %+v should", what, d.ChangeID, w.ChangeID)
		}
		if diff := differ(w.object, d.Object); diff != "" {
			t.Fatalf("%s: %+v: %s", what, d.ChangeID, diff)
		}
	}
	if len(got) < len(want) {
		t.Fatalf("%s: there is no %+v", what, want[len(got)].ChangeID)
	}
}

// checkFrozen checks that states do not change while newer ones are made.
func (m *machine) checkFrozen(t *rapid.T, s *cacher.State) {
	if m.random.IntN(4) > 0 {
		return
	}
	for _, k := range m.kept {
		if says := saying(k.State); says != k.said {
			t.Fatalf("the state at %d said %s, and says %s now that there is one at %d", k.Revision(), k.said, says, s.Revision())
		}
	}
	m.kept = append(m.kept[max(0, len(m.kept)-3):], kept{s, saying(s)})
}

// saying returns what a state says.
func saying(s *cacher.State) string {
	var b strings.Builder
	fmt.Fprint(&b, s.Position(), s.Len(), s.WindowLen(), s.Replayable(), s.Relisted())
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

// key returns a key, or another place to start from.
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

// How things are compared.

func compareMarks(a, b cacher.ChangeID) int {
	return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.Key, b.Key))
}

func same(t *rapid.T, what string, got iter.Seq[*object.Object], want []*object.Object) {
	i := 0
	for o := range got {
		if i == len(want) {
			t.Fatalf("%s: there should be no %+v", what, o)
		}
		if diff := differ(want[i], o); diff != "" {
			t.Fatalf("%s: %s", what, diff)
		}
		i++
	}
	if i < len(want) {
		t.Fatalf("%s: there is no %+v", what, want[i])
	}
}

// differ says how two objects differ, or nothing.
func differ(want, got *object.Object) string {
	if reflect.DeepEqual(want, got) {
		return ""
	}
	return fmt.Sprintf("%+v should be %+v", got, want)
}

func sameChange(want, got *object.Change) bool {
	return got.Revision == want.Revision && got.Key == want.Key && differ(want.Old, got.Old) == "" && differ(want.New, got.New) == ""
}

func showChange(c *object.Change) string {
	return fmt.Sprintf("%q at %d from %+v to %+v", c.Key, c.Revision, c.Old, c.New)
}
