package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/api/v3/mvccpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/test/poll"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// foreignMark is a key that the other program puts in each of its transactions. So etcd's history shows which
// changes are its own.
const foreignMark = "/foreign"

// numbered is a value of the test. The rule of its resource wants N to be the one of the replaced object plus 1.
type numbered struct {
	N  int    `json:"n"`
	ID string `json:"id"` // of the write, and its message
}

// oracle knows from etcd's history what the histories of a resource must show.
type oracle struct {
	prefix  string // of the resource in etcd
	ttl     bool   // objects with a time to live are recorded
	values  *crypt.Values
	keys    map[object.Key]*keyHistory
	records map[int64]int // the number of records by revision, without those of re-encryptions
	puts    int
	wrong   []error
}

// keyHistory is what happened to a key.
type keyHistory struct {
	present  stored
	newest   *history.Name // record
	newestAt int64
	shown    []string // the entries of the history, oldest first
}

// stored is an object in etcd. With revision 0 there is none.
type stored struct {
	revision, lease int64
	value           []byte // decrypted
}

// change is a change of an object in etcd.
type change struct {
	revision int64
	key      object.Key
	object   stored // that is there after it
	record   *history.Name
	foreign  bool
}

func (o *oracle) fault(format string, args ...any) {
	o.wrong = append(o.wrong, fmt.Errorf(format, args...))
}

// readOracles reads etcd's history from the first revision, and judges it by each oracle.
func readOracles(t *testing.T, client *clientv3.Client, oracles ...*oracle) {
	t.Helper()
	ctx, cancel := context.WithCancel(poll.Context(t))
	defer cancel()
	present, err := client.Get(ctx, foreignMark, clientv3.WithCountOnly())
	if err != nil {
		t.Fatal(err)
	}
	var events []*clientv3.Event // of one revision, which may come in several answers
	judge := func() {
		for _, o := range oracles {
			o.judge(events)
		}
		events = nil
	}
	last := int64(1)
	for answer := range client.Watch(ctx, "", clientv3.WithPrefix(), clientv3.WithRev(1)) {
		if err := answer.Err(); err != nil {
			t.Fatal(err)
		}
		for _, e := range answer.Events {
			if e.Kv.ModRevision != last {
				judge()
			}
			last = e.Kv.ModRevision
			events = append(events, e)
		}
		if last >= present.Header.GetRevision() {
			judge()
			return
		}
	}
	t.Fatal("the watch has ended")
}

// judge takes the events of one revision.
func (o *oracle) judge(events []*clientv3.Event) {
	if len(events) == 0 {
		return
	}
	records := map[object.Key]*history.Name{}
	var names, entries []history.Name
	foreign := false
	for _, e := range events {
		key := string(e.Kv.Key)
		foreign = foreign || key == foreignMark
		rest, ok := strings.CutPrefix(key, history.Prefix(o.prefix))
		if !ok {
			continue
		}
		name, isRecord := history.ParseRecordKey(object.Key(rest))
		isEntry := false
		if !isRecord {
			name, isEntry = history.ParseIndexKey(object.Key(rest))
		}
		switch {
		case !isRecord && !isEntry:
			o.fault("%q is not the key of a record", key)
		case e.Type == mvccpb.Event_DELETE && !name.Kind.IsReencryption():
			o.fault("%q was removed at revision %d", key, e.Kv.ModRevision)
		case e.Type == mvccpb.Event_DELETE || e.Kv.CreateRevision != e.Kv.ModRevision: // pruned, or encrypted again
		case isEntry:
			entries = append(entries, name)
		default:
			names = append(names, name)
			if records[name.Key] != nil {
				o.fault("%q has two records at revision %d", name.Key, e.Kv.ModRevision)
			}
			records[name.Key] = &name
			if !name.Kind.IsReencryption() {
				o.records[e.Kv.ModRevision]++
			}
		}
	}
	byKey := func(a, b history.Name) int { return strings.Compare(string(a.Key), string(b.Key)) }
	slices.SortFunc(names, byKey)
	slices.SortFunc(entries, byKey)
	revision := events[0].Kv.ModRevision
	if !slices.Equal(names, entries) {
		o.fault("revision %d has the records %v, and the entries %v", revision, names, entries)
	}
	for _, e := range events {
		key, ok := strings.CutPrefix(string(e.Kv.Key), o.prefix)
		if !ok {
			continue
		}
		c := change{revision: revision, key: object.Key(key), record: records[object.Key(key)], foreign: foreign}
		if e.Type == mvccpb.Event_PUT {
			value, lost := o.values.Open(string(e.Kv.Key), e.Kv.Value)
			if lost != nil {
				o.fault("%q at revision %d cannot be decrypted", key, revision)
			}
			c.object = stored{revision: revision, lease: e.Kv.Lease, value: value}
		}
		delete(records, c.key)
		o.change(&c)
	}
	for key := range records {
		o.fault("%q has a record at revision %d, but was not written", key, revision)
	}
}

// change judges one change, and takes note of it.
func (o *oracle) change(c *change) {
	k := o.keys[c.key]
	if k == nil {
		k = &keyHistory{}
		o.keys[c.key] = k
	}
	before := k.present
	k.present = c.object
	put := c.object.revision != 0
	again := put && !c.foreign && before.revision != 0 && string(before.value) == string(c.object.value)
	if put && !again && !c.foreign {
		o.puts++
		o.checkRule(c, before)
	}
	leftOut := o.leavesOut(k, before)
	want := history.Kind(0)
	switch {
	case c.foreign:
	case again:
		if k.newest != nil && k.newestAt == before.revision && k.newest.Kind != history.Transient {
			want = k.newest.Kind.Reencryption()
		}
	case !put && before.lease != 0 && (c.record == nil || leftOut): // expired, or deleted without a record
	case !put:
		want = history.Delete
	case c.object.lease == 0:
		want = history.Put
	case o.ttl:
		want = history.PutTTL
	case before.revision != 0 && !leftOut:
		want = history.Transient
	}
	got := history.Kind(0)
	if c.record != nil {
		got = c.record.Kind
	}
	if got != want {
		o.fault("%q has a record of kind %q at revision %d, want %q", c.key, got, c.revision, want)
	}
	if c.record == nil {
		return
	}
	if k.newest != nil && c.record.Order >= k.newest.Order {
		o.fault("%q: the record of revision %d sorts after that of revision %d", c.key, c.revision, k.newestAt)
	}
	if !again {
		k.show(o, c, before)
	}
	k.newest, k.newestAt = c.record, c.revision
}

// leavesOut reports whether the history leaves out an object of a key: it has a time to live and the history has no
// ttl, unless the newest record says that an object without one is there.
func (o *oracle) leavesOut(k *keyHistory, object stored) bool {
	if o.ttl || object.lease == 0 {
		return false
	}
	if k.newest == nil {
		return true
	}
	exists, ttl := k.newest.Kind.LeavesObject()
	return !exists || ttl
}

// checkRule checks that a put of a server follows the rule.
func (o *oracle) checkRule(c *change, before stored) {
	var value, old numbered
	if err := json.Unmarshal(contentOf(c.object.value), &value); err != nil {
		o.fault("%q at revision %d: %w", c.key, c.revision, err)
	}
	if before.revision != 0 {
		if err := json.Unmarshal(contentOf(before.value), &old); err != nil {
			o.fault("%q at revision %d replaced a value that rules cannot read: %w", c.key, c.revision, err)
		}
	}
	if value.N != old.N+1 {
		o.fault("%q at revision %d has the number %d and replaced the number %d", c.key, c.revision, value.N, old.N)
	}
}

// show adds the entries of a record.
func (k *keyHistory) show(o *oracle, c *change, before stored) {
	exists, ttl := false, false
	if k.newest != nil {
		exists, ttl = k.newest.Kind.LeavesObject()
	}
	switch {
	case before.revision == 0 && (!exists || k.newest.Kind == history.Transient):
	case before.revision == 0 && ttl:
		k.shown = append(k.shown, "EXPIRED")
	case before.revision == 0:
		k.shown = append(k.shown, "GAP 0 ")
	case k.newest != nil && k.newestAt == before.revision:
	case o.leavesOut(k, before):
	case k.newest == nil:
		k.shown = append(k.shown, fmt.Sprintf("EARLIER %d %s", before.revision, contentOf(before.value)))
	default:
		k.shown = append(k.shown, fmt.Sprintf("GAP %d %s", before.revision, contentOf(before.value)))
	}
	kind, value := "PUT", contentOf(c.object.value)
	switch c.record.Kind {
	case history.Delete:
		kind = "DELETE"
	case history.Transient:
		value = nil
	}
	k.shown = append(k.shown, fmt.Sprintf("%s %d %s of %d", kind, c.revision, value, o.records[c.revision]))
}

// entries returns what the history of a key must show, newest first.
func (o *oracle) entries(key object.Key) []string {
	k := o.keys[key]
	if k == nil || k.newest == nil {
		return nil
	}
	shown := slices.Clone(k.shown)
	exists, ttl := k.newest.Kind.LeavesObject()
	switch {
	case k.present.revision == 0 && (!exists || k.newest.Kind == history.Transient), k.present.revision == k.newestAt:
	case k.present.revision == 0 && ttl:
		shown = append(shown, "EXPIRED")
	case o.leavesOut(k, k.present):
	default:
		shown = append(shown, fmt.Sprintf("GAP %d ", k.present.revision))
	}
	slices.Reverse(shown)
	return shown
}

// sorted returns the keys.
func (o *oracle) sorted() []object.Key { return slices.Sorted(maps.Keys(o.keys)) }

// contentOf returns the value in a stored form.
func contentOf(stored []byte) []byte {
	var d object.Decoded
	if err := decodeEnvelope(&d, stored); err != nil {
		return nil
	}
	return d.Value
}

// shownEntry returns an entry as the oracle does.
func shownEntry(e *fanoutv1.HistoryEntry) string {
	value := e.GetObject().GetText()
	if value == "" {
		value = string(e.GetObject().GetData())
	}
	kind := strings.TrimPrefix(e.GetKind().String(), "KIND_")
	switch e.GetKind() {
	case fanoutv1.HistoryEntry_KIND_PUT, fanoutv1.HistoryEntry_KIND_DELETE:
		return fmt.Sprintf("%s %d %s of %d", kind, e.GetRevision(), value, e.GetTransactionWrites())
	case fanoutv1.HistoryEntry_KIND_EXPIRED:
		return kind
	}
	return fmt.Sprintf("%s %d %s", kind, e.GetRevision(), value)
}
