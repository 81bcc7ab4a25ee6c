package history

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Prefix returns the etcd prefix of the history of a resource with a prefix. It overlaps the prefix of
// no other resource unless that also overlaps the resource itself, or is written to do so.
func Prefix(resource string) string { return strings.TrimSuffix(resource, "/") + "#history/" }

// Kind is the kind of a write, as the names of its records have it.
type Kind byte

// The kinds of writes. Reencrypt changes the mod revision of an object, so it records that, too:
// without a value, because it changes none.
const (
	Put            Kind = 'p'
	PutTTL         Kind = 't' // of an object with a time to live
	Delete         Kind = 'd'
	Transient      Kind = 'e' // an object with a time to live replaced one without; neither it nor its successors are kept
	Reencrypted    Kind = 'P'
	ReencryptedTTL Kind = 'T'
	kinds               = "ptdePT"
	timeDigits          = 11
	sizeDigits          = 8
	tailBytes           = 1 + timeDigits + sizeDigits
	baseBytes           = 16
	orderBytes          = 2 * baseBytes
)

// IsReencryption reports whether the write only encrypted the object again.
func (k Kind) IsReencryption() bool { return k == Reencrypted || k == ReencryptedTTL }

// LeavesObject reports whether the key has an object after the write, and whether that object has a
// time to live.
func (k Kind) LeavesObject() (exists, ttl bool) {
	switch k {
	case Put, Reencrypted:
		return true, false
	case PutTTL, ReencryptedTTL, Transient:
		return true, true
	}
	return false, false
}

// Reencryption returns the kind of a write that encrypts the object of this write again.
func (k Kind) Reencryption() Kind {
	if k == PutTTL || k == ReencryptedTTL {
		return ReencryptedTTL
	}
	return Reencrypted
}

// Order is where a write is in the history. Later writes sort first.
type Order string

// Slack is how many revisions the order of a resource may be wrong. A write with an order that is made
// from revision r is committed only while no record has an order from a revision above r + Slack. So
// of two records whose orders differ by more, the one with the higher order is the newer one.
const Slack = 256

// NewOrder returns an order made from a revision that the writer has seen. Unique distinguishes
// writes with the same revision.
func NewOrder(seen int64, unique uint64) Order {
	var b [orderBytes]byte
	appendHex(b[:0], inverted(seen), baseBytes)
	appendHex(b[:baseBytes], unique, baseBytes)
	return Order(b[:])
}

// base returns the first half of the orders from a revision.
func base(seen int64) string {
	var b [baseBytes]byte
	return string(appendHex(b[:0], inverted(seen), baseBytes))
}

func inverted(seen int64) uint64 { return uint64(math.MaxInt64 - max(0, seen)) }

// appendHex appends a number with a fixed number of digits.
func appendHex(b []byte, n uint64, digits int) []byte {
	const hex = "0123456789abcdef"
	for shift := 4 * (digits - 1); shift >= 0; shift -= 4 {
		b = append(b, hex[n>>shift&0xf])
	}
	return b
}

// Seen returns the revision that the order was made from.
func (o Order) Seen() int64 {
	inverted, err := strconv.ParseUint(string(o[:baseBytes]), 16, 64)
	if err != nil {
		return 0
	}
	return math.MaxInt64 - int64(inverted)
}

// Name is what the etcd keys of a record and of its entry in the index say.
type Name struct {
	Key   object.Key
	Order Order
	Kind  Kind
	Time  time.Time // of the writer's clock, in milliseconds
	Size  int       // of the record and its entry, in bytes
}

const (
	recordPrefix = "k/"
	indexPrefix  = "o/"
	indexEnd     = "o0"
)

// Tail returns the part of a name that is known before the order.
func Tail(kind Kind, at time.Time, size int) string {
	var b [tailBytes]byte
	return string(appendHex(appendHex(append(b[:0], byte(kind)), uint64(at.UnixMilli()), timeDigits), uint64(size), sizeDigits))
}

// Another program may write keys that contain NUL, which ends a key in the key of a record. It is replaced, so that
// the records of a key are outside of the ranges of all other keys.
var (
	escapeNUL   = strings.NewReplacer("\x00", "\x01\x01", "\x01", "\x01\x02")
	unescapeNUL = strings.NewReplacer("\x01\x01", "\x00", "\x01\x02", "\x01")
)

// recordsOf returns the first part of the keys of the records of a key.
func recordsOf(key object.Key) object.Key {
	return recordPrefix + object.Key(escapeNUL.Replace(string(key))) + "\x00"
}

// RecordKey returns the key of a record.
func RecordKey(key object.Key, order Order, tail string) object.Key {
	return recordsOf(key) + object.Key(order) + object.Key(tail)
}

// IndexKey returns the key of the entry of a record in the index.
func IndexKey(key object.Key, order Order, tail string) object.Key {
	return indexPrefix + object.Key(order) + object.Key(tail) + key
}

// RecordKey returns the key of the record.
func (n Name) RecordKey() object.Key { return RecordKey(n.Key, n.Order, Tail(n.Kind, n.Time, n.Size)) }

// IndexKey returns the key of the entry in the index.
func (n Name) IndexKey() object.Key { return IndexKey(n.Key, n.Order, Tail(n.Kind, n.Time, n.Size)) }

// RecordsOf returns the range of the keys of all records of a key.
func RecordsOf(key object.Key) (from, end object.Key) {
	from = recordsOf(key)
	return from, from[:len(from)-1] + "\x01"
}

// NotBefore returns the range of the keys of all records of a key with an order from the revision or a
// later one. A write may be recorded only if there are none.
func NotBefore(key object.Key, seen int64) (from, end object.Key) {
	from, _ = RecordsOf(key)
	return from, from + object.Key(base(seen)) + "g"
}

// BeyondSlack returns the range of the keys of the index that must be empty while a record with an order
// from the revision is written.
func BeyondSlack(seen int64) (from, end object.Key) {
	return indexPrefix, indexPrefix + object.Key(base(seen+Slack))
}

// Latest returns the range of the keys of the index with an order from the revision or a later one. It begins
// with the latest order. The range ends there, because etcd counts all keys of a range, even if the read has a limit.
func Latest(seen int64) (from, end object.Key) { return indexPrefix, indexFrom(seen - 1) }

// indexFrom returns the first key of the index with an order from the revision or an earlier one.
func indexFrom(seen int64) object.Key { return indexPrefix + object.Key(base(seen)) }

// indexBetween returns the range of the keys of the index with orders from revisions above after, up to upto.
func indexBetween(after, upto int64) (from, end object.Key) { return indexFrom(upto), indexFrom(after) }

// recordsBetween returns the range of the keys of the records of a key with such orders.
func recordsBetween(key object.Key, after, upto int64) (from, end object.Key) {
	first, _ := RecordsOf(key)
	return first + object.Key(base(upto)), first + object.Key(base(after))
}

// ParseIndexKey returns the name in the key of an entry of the index.
func ParseIndexKey(key object.Key) (Name, bool) {
	rest, ok := strings.CutPrefix(string(key), indexPrefix)
	if !ok || len(rest) <= orderBytes+tailBytes {
		return Name{}, false
	}
	n, ok := parse(rest[:orderBytes+tailBytes])
	n.Key = object.Key(rest[orderBytes+tailBytes:])
	return n, ok
}

// ParseRecordKey returns the name in the key of a record.
func ParseRecordKey(key object.Key) (Name, bool) {
	rest, ok := strings.CutPrefix(string(key), recordPrefix)
	at := len(rest) - orderBytes - tailBytes - 1
	if !ok || at < 1 || rest[at] != 0 {
		return Name{}, false
	}
	n, ok := parse(rest[at+1:])
	n.Key = object.Key(unescapeNUL.Replace(rest[:at]))
	return n, ok
}

// parseKey returns the name in the key of a record or of its entry in the index.
func parseKey(key object.Key) (Name, bool) {
	if strings.HasPrefix(string(key), indexPrefix) {
		return ParseIndexKey(key)
	}
	return ParseRecordKey(key)
}

// parse returns the name in an order and a tail.
func parse(s string) (Name, bool) {
	tail := s[orderBytes:]
	ms, err := strconv.ParseInt(tail[1:1+timeDigits], 16, 64)
	if err != nil {
		return Name{}, false
	}
	size, err := strconv.ParseUint(tail[1+timeDigits:], 16, 32)
	if err != nil || strings.IndexByte(kinds, tail[0]) < 0 {
		return Name{}, false
	}
	return Name{Order: Order(s[:orderBytes]), Kind: Kind(tail[0]), Time: time.UnixMilli(ms).UTC(), Size: int(size)}, true
}

// AllRecords returns the range of the keys of all records, without the index.
func AllRecords() (from, end object.Key) { return recordPrefix, "k0" }
