package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// Reader reads the history of a resource.
type Reader struct {
	store      Store
	recordsTTL bool
}

// NewReader returns a reader. RecordsTTL is whether the writes of objects with a time to live are recorded.
func NewReader(store Store, recordsTTL bool) *Reader { return &Reader{store, recordsTTL} }

// Query selects a page of a history.
type Query struct {
	Scope object.Scope
	From  Place
	Limit int // of records

	// Values makes the entries have values. A page then has about MaxBytes, but at least one record.
	Values   bool
	MaxBytes int
}

// Place is where a page begins: at the newest record with a revision of at most Upto. If After is not
// empty, it begins after that key in the revision. The zero Place is the newest record.
type Place struct {
	Upto  object.Revision
	After object.Key
}

// covers reports whether a record is not before the place.
func (p Place) covers(f found) bool {
	return p.Upto == 0 || f.at < p.Upto || f.at == p.Upto && f.Key > p.After
}

// Page is a part of a history, newest first.
type Page struct {
	Entries []Entry
	More    bool
	Next    Place           // of the next page, if there are more
	At      object.Revision // of the store when the page was read
}

// Page reads a page. If the scope has few of the records of the resource, the page may be shorter than
// its limit, or empty, although there are more.
func (r *Reader) Page(ctx context.Context, q Query) (Page, error) {
	var records []found
	var at object.Revision
	var next Place
	var more bool
	var err error
	if key, ok := q.Scope.Key(); ok {
		records, at, more, err = r.ofKey(ctx, key, q)
	} else {
		records, next, at, more, err = r.ofScope(ctx, q)
	}
	if err != nil {
		return Page{}, err
	}
	if q.Values {
		bytes := 0
		for i := range records {
			if bytes += records[i].Size; i > 0 && bytes > q.MaxBytes {
				records, more, next = records[:i], true, Place{}
				break
			}
		}
	}
	if more && next == (Place{}) {
		last := records[len(records)-1]
		next = Place{Upto: last.at, After: last.Key}
	}
	entries, err := r.entries(ctx, at, records, q.Values)
	return Page{Entries: entries, More: more, Next: next, At: at}, err
}

// ofKey returns the records of one key, and the revision at which they were read.
func (r *Reader) ofKey(ctx context.Context, key object.Key, q Query) (records []found, at object.Revision, more bool, err error) {
	from, end := RecordsOf(key)
	if upto := q.From.Upto; upto != 0 {
		top, now, err := r.highest(ctx)
		if err != nil {
			return nil, 0, false, err
		}
		newer, err := r.newerThan(ctx, now, upto, top, func(after, upto int64) (object.Key, object.Key) { return recordsBetween(key, after, upto) })
		if err != nil {
			return nil, 0, false, err
		}
		if at = now; newer.Key != "" {
			from = newer.RecordKey() + "\x00"
		}
	}
	for {
		limit := q.Limit + 1 - len(records)
		read, now, err := r.store.Read(ctx, at, []Range{{From: from, End: end, Limit: limit, KeysOnly: true}})
		if err != nil {
			return nil, 0, false, err
		}
		at = now
		for _, record := range read[0] {
			from = record.Key + "\x00"
			name, ok := ParseRecordKey(record.Key)
			if f := (found{name, record.CreateRevision}); ok && name.Key == key && q.From.covers(f) && !name.Kind.IsReencryption() {
				records = append(records, f)
			}
		}
		if len(records) > q.Limit {
			return records[:q.Limit], at, true, nil
		}
		if len(read[0]) < limit {
			return records, at, false, nil
		}
	}
}

const (
	// firstWindow is how many revisions of the index are read at first. etcd counts all keys of a
	// range, so a range without an end would cost more than the page.
	firstWindow = Slack / 4

	// scanBatch is how many entries of the index are read at once, and maxScan how many for one page.
	scanBatch = 512
	maxScan   = 20_000
)

// ofScope returns the records of a scope, from the index. The index is in order only up to [Slack], so
// the records wait until no later one can follow.
func (r *Reader) ofScope(ctx context.Context, q Query) (records []found, next Place, at object.Revision, more bool, err error) {
	top, now, err := r.highest(ctx)
	if err != nil {
		return nil, Place{}, 0, false, err
	}
	s := indexScan{store: r.store, at: now, window: firstWindow, least: math.MaxInt64, from: indexPrefix}
	if upto := q.From.Upto; upto != 0 {
		newer, err := r.newerThan(ctx, now, upto, top, indexBetween)
		if err != nil {
			return nil, Place{}, 0, false, err
		}
		if newer.Key != "" {
			top = newer.Order.Seen() + Slack
			s.from = indexFrom(top)
		}
	}
	s.below = max(0, top-s.window)
	order := func(a, b found) int { return cmp.Or(cmp.Compare(b.at, a.at), cmp.Compare(a.Key, b.Key)) }
	var waiting []found
	for scanned := 0; !s.done; {
		batch, err := s.next(ctx)
		if err != nil {
			return nil, Place{}, 0, false, err
		}
		scanned += len(batch)
		for _, f := range batch {
			if q.Scope.Contains(f.Key) && q.From.covers(f) && !f.Kind.IsReencryption() {
				waiting = append(waiting, f)
			}
		}
		// Only the newest records matter.
		if len(waiting) > 8*(q.Limit+1) {
			slices.SortFunc(waiting, order)
			waiting = waiting[:q.Limit+1]
		}
		safe := s.safe()
		ready := 0
		for _, f := range waiting {
			if f.at >= safe {
				ready++
			}
		}
		progress := safe < math.MaxInt64 && (q.From.Upto == 0 || safe <= q.From.Upto)
		if ready > q.Limit || scanned >= maxScan && progress {
			if s.done {
				break
			}
			slices.SortFunc(waiting, order)
			if ready > q.Limit {
				return waiting[:q.Limit], Place{}, s.at, true, nil
			}
			return waiting[:ready], Place{Upto: max(1, safe-1)}, s.at, true, nil
		}
	}
	slices.SortFunc(waiting, order)
	if len(waiting) > q.Limit {
		return waiting[:q.Limit], Place{}, s.at, true, nil
	}
	return waiting, Place{}, s.at, false, nil
}

// indexScan reads the index from newer to older orders.
type indexScan struct {
	store Store
	at    object.Revision // at which everything is read

	from   object.Key // the rest of the index begins here
	below  int64      // and the window that is being read ends before this revision
	window int64
	read   int  // entries of the window so far
	done   bool // there are no more

	recent []found // one of each transaction that may be older than an unread one
	least  object.Revision
}

// newerThan returns the record of a write that is newer than a revision, with one of the first orders for which that holds, or
// nothing if there is none. Records with later orders are newer, too: exactly so among those of one key, and
// up to [Slack] in the index. Between returns the keys of the records with orders from revisions above one, up to
// another.
//
// Usually this is the first record with an order from the revision or a later one. But an order may be made from
// a revision that etcd did not have: a server did not know yet that etcd was restored, or went ahead of others.
func (r *Reader) newerThan(ctx context.Context, at, revision object.Revision, top int64, between func(after, upto int64) (from, end object.Key)) (found, error) {
	const first, growth = 16, 8
	after := int64(revision) - 1
	for width := int64(first); after < top; width *= growth {
		from, end := between(after, after+width)
		read, _, err := r.store.Read(ctx, at, []Range{{From: from, End: end, Limit: scanBatch, KeysOnly: true}})
		if err != nil {
			return found{}, err
		}
		for _, record := range slices.Backward(read[0]) {
			name, ok := parseKey(record.Key)
			if ok && record.CreateRevision > revision && !name.Kind.IsReencryption() {
				return found{name, record.CreateRevision}, nil
			}
		}
		after += width
	}
	return found{}, nil
}

// highest returns the present revision, and a revision that is not lower and that no order is later than. It is
// higher if an order was made from a revision that etcd did not have.
func (r *Reader) highest(ctx context.Context) (order int64, now object.Revision, err error) {
	if _, now, err = r.store.Read(ctx, 0, []Range{{From: indexPrefix, Limit: 1, KeysOnly: true}}); err != nil {
		return 0, 0, err
	}
	wrong, _, err := r.store.Read(ctx, now, []Range{{From: indexPrefix, End: indexFrom(int64(now)), Limit: 1, KeysOnly: true}})
	if err != nil {
		return 0, 0, err
	}
	order = int64(now)
	for _, record := range wrong[0] {
		if name, ok := ParseIndexKey(record.Key); ok {
			order = max(order, name.Order.Seen())
		}
	}
	return order, now, nil
}

// next returns the next entries.
func (s *indexScan) next(ctx context.Context) ([]found, error) {
	end := indexFrom(s.below)
	if s.below == 0 {
		end = indexEnd
	}
	read, _, err := s.store.Read(ctx, s.at, []Range{{From: s.from, End: end, Limit: scanBatch, KeysOnly: true}})
	if err != nil {
		return nil, err
	}
	var batch []found
	for _, record := range read[0] {
		s.from = record.Key + "\x00"
		name, ok := ParseIndexKey(record.Key)
		if !ok {
			continue
		}
		f := found{name, record.CreateRevision}
		batch = append(batch, f)
		if n := len(s.recent); n == 0 || s.recent[n-1].Order != name.Order {
			s.recent = append(s.recent, f)
		}
	}
	s.read += len(read[0])
	if len(read[0]) == scanBatch {
		return batch, nil
	}
	// The window is read.
	s.from, s.done = end, s.below == 0
	switch {
	case s.read < scanBatch:
		s.window *= 4
	case s.read > 2*scanBatch:
		s.window = max(1, s.window*scanBatch/int64(s.read))
	}
	s.read = 0
	s.below = max(0, s.below-s.window)
	return batch, nil
}

// safe returns a revision: all records of this one and of later ones have been read.
func (s *indexScan) safe() object.Revision {
	if s.done {
		return 0
	}
	unread := s.unread()
	n := 0
	for _, f := range s.recent {
		if f.Order.Seen() <= unread+Slack {
			break
		}
		s.least = min(s.least, f.at)
		n++
	}
	s.recent = s.recent[n:]
	return s.least
}

// unread returns the latest revision that an unread order can be made from.
func (s *indexScan) unread() int64 {
	rest := s.from[len(indexPrefix):]
	if len(rest) < baseBytes {
		return math.MaxInt64 // nothing has been read
	}
	return Order(rest).Seen()
}

// entries returns the entries of records, as of a revision.
func (r *Reader) entries(ctx context.Context, at object.Revision, records []found, values bool) ([]Entry, error) {
	if len(records) == 0 {
		return nil, nil
	}
	changes, err := r.changes(ctx, at, records)
	if err != nil {
		return nil, err
	}
	newest, err := r.newest(ctx, at, records)
	if err != nil {
		return nil, err
	}
	before, err := r.before(ctx, at, records, changes)
	if err != nil {
		return nil, err
	}
	contents := make([][]object.Record, len(records))
	if values {
		ranges := make([]Range, len(records))
		for i := range records {
			ranges[i] = Range{From: records[i].RecordKey()}
		}
		if contents, _, err = r.store.Read(ctx, at, ranges); err != nil {
			return nil, err
		}
	}
	var entries []Entry
	for i := range records {
		f := &records[i]
		var value *object.Record
		if len(contents[i]) > 0 {
			value = &contents[i][0]
		}
		if since, ok := newest[i]; ok {
			entries = append(entries, since)
		}
		entries = append(entries, f.describe(changes[i], value)...)
		if between, ok := before[i]; ok {
			entries = append(entries, between)
		}
	}
	return entries, nil
}

// changes reads the entries of the index of records. One that cannot be read is empty.
func (r *Reader) changes(ctx context.Context, at object.Revision, records []found) ([]*storagev1.HistoryChange, error) {
	ranges := make([]Range, len(records))
	for i, f := range records {
		ranges[i] = Range{From: f.IndexKey()}
	}
	read, _, err := r.store.Read(ctx, at, ranges)
	if err != nil {
		return nil, err
	}
	changes := make([]*storagev1.HistoryChange, len(records))
	for i, one := range read {
		changes[i] = &storagev1.HistoryChange{}
		if len(one) == 0 || one[0].Undecryptable != nil {
			continue
		}
		if err := proto.Unmarshal(one[0].Value, changes[i]); err != nil {
			return nil, fmt.Errorf("read the history of %q: %w", records[i].Key, err)
		}
	}
	return changes, nil
}

// maxReencryptions is how many encryptions of an object since its last write are looked through. The
// pruner keeps one.
const maxReencryptions = 8

// newest returns what happened to keys after their newest records, by the index of the record. It looks only
// before the first record of each key: etcd walks a whole range, whatever its limit.
func (r *Reader) newest(ctx context.Context, at object.Revision, records []found) (map[int]Entry, error) {
	var keys []object.Key
	var ranges []Range
	var firsts []int
	known := map[object.Key]bool{}
	for i, f := range records {
		if known[f.Key] {
			continue
		}
		known[f.Key] = true
		from, _ := RecordsOf(f.Key)
		keys, firsts = append(keys, f.Key), append(firsts, i)
		ranges = append(ranges, Range{From: from, End: f.RecordKey() + "\x00", Limit: maxReencryptions + 1, KeysOnly: true})
	}
	read, _, err := r.store.Read(ctx, at, ranges)
	if err != nil {
		return nil, err
	}
	present, err := r.store.Present(ctx, at, keys)
	if err != nil {
		return nil, err
	}
	since := map[int]Entry{}
	for n, i := range firsts {
		// The newest records may only say that the object was encrypted again.
		for _, record := range read[n] {
			name, ok := ParseRecordKey(record.Key)
			if !ok || name.Kind.IsReencryption() {
				continue
			}
			if name.Order != records[i].Order {
				break
			}
			top, _ := ParseRecordKey(read[n][0].Key)
			last := found{top, read[n][0].CreateRevision}
			if e, ok := last.since(present[n], r.recordsTTL); ok {
				since[i] = e
			}
			break
		}
	}
	return since, nil
}

// before returns what happened to keys before those records that replaced no object, by the index of
// the record. The record before is the next one of its key on the page. etcd has that of the last one.
func (r *Reader) before(ctx context.Context, at object.Revision, records []found, changes []*storagev1.HistoryChange) (map[int]Entry, error) {
	happened := map[int]Entry{}
	var created []int
	var ranges []Range
	older := map[object.Key]*found{}
	for i := range slices.Backward(changes) {
		previous := older[records[i].Key]
		older[records[i].Key] = &records[i]
		switch {
		case changes[i].GetReplacedRevision() != 0:
		case previous != nil:
			if e, ok := previous.between(); ok {
				happened[i] = e
			}
		default:
			_, end := RecordsOf(records[i].Key)
			created = append(created, i)
			ranges = append(ranges, Range{From: records[i].RecordKey() + "\x00", End: end, Limit: 1, KeysOnly: true})
		}
	}
	if len(created) == 0 {
		return happened, nil
	}
	read, _, err := r.store.Read(ctx, at, ranges)
	if err != nil {
		return nil, err
	}
	for n, i := range created {
		if len(read[n]) == 0 {
			continue
		}
		name, ok := ParseRecordKey(read[n][0].Key)
		if previous := (found{name, read[n][0].CreateRevision}); ok {
			if e, ok := previous.between(); ok {
				happened[i] = e
			}
		}
	}
	return happened, nil
}

// At returns the revision of the last write that was recorded at a time or before it, by the clocks of
// the writers; 0 if there is none. A time means this revision for every scope of the resource.
func (r *Reader) At(ctx context.Context, t time.Time) (object.Revision, error) {
	high, now, err := r.highest(ctx)
	if err != nil {
		return 0, err
	}
	low := int64(-1) // the latest of the orders from low or earlier ones is old enough
	for low < high {
		middle := low + (high-low+1)/2
		f, ok, err := r.latestFrom(ctx, now, middle)
		switch {
		case err != nil:
			return 0, err
		case ok && f.Time.After(t):
			high = min(middle, f.Order.Seen()) - 1
		default:
			low = middle
		}
	}
	// The index is in order only up to Slack: a write with a higher order may be older, and one with a lower
	// order newer.
	s := indexScan{store: r.store, at: now, from: indexFrom(low + 1 + Slack), below: max(0, low-Slack), window: firstWindow, least: math.MaxInt64}
	var best object.Revision
	for !s.done && (best == 0 || best < s.safe()) {
		batch, err := s.next(ctx)
		if err != nil {
			return 0, err
		}
		for _, f := range batch {
			if !f.Time.After(t) && !f.Kind.IsReencryption() {
				best = max(best, f.at)
			}
		}
	}
	return best, nil
}

// latestFrom returns the entry of a write in the index with the latest order from the revision or an earlier one.
func (r *Reader) latestFrom(ctx context.Context, at object.Revision, seen int64) (found, bool, error) {
	s := indexScan{store: r.store, at: at, from: indexFrom(seen), window: 64, below: max(0, seen-64)}
	for !s.done {
		batch, err := s.next(ctx)
		if err != nil {
			return found{}, false, err
		}
		for _, f := range batch {
			if !f.Kind.IsReencryption() {
				return f, true, nil
			}
		}
	}
	return found{}, false, nil
}

// Last returns the write whose result is the object of a key with a mod revision, or nil if the history
// does not have it.
func (r *Reader) Last(ctx context.Context, key object.Key, revision object.Revision) (*Entry, error) {
	first, end := RecordsOf(key)
	from := first + object.Key(base(int64(revision)-1))
	read, at, err := r.store.Read(ctx, 0, []Range{
		{From: from, End: end, Limit: maxReencryptions + 1, KeysOnly: true},
		{From: first, End: from, Limit: maxReencryptions + 1, KeysOnly: true}, // later, or from before etcd was restored
	})
	if err != nil {
		return nil, err
	}
	explained := false // the first record is the write of the revision, or its object encrypted again
	for _, record := range slices.Concat(read[1], read[0]) {
		name, ok := ParseRecordKey(record.Key)
		if !ok || record.CreateRevision > revision {
			continue
		}
		if explained = explained || record.CreateRevision == revision; !explained {
			return nil, nil
		}
		if name.Kind.IsReencryption() {
			continue
		}
		f := found{name, record.CreateRevision}
		changes, err := r.changes(ctx, at, []found{f})
		if err != nil {
			return nil, err
		}
		return &f.describe(changes[0], nil)[0], nil
	}
	return nil, nil
}
