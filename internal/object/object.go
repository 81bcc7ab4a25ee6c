package object

import (
	"fmt"
	"unsafe"

	"google.golang.org/protobuf/encoding/protowire"
)

// Revision is an etcd revision: the number of the transaction that made a change.
// It is the same on every replica. Zero precedes the first change.
type Revision int64

// Epoch identifies a revision space. Revisions of different epochs are not
// comparable. Epochs are opaque; they can only be tested for equality.
type Epoch string

// Position is a point in the history of a resource. It covers every change up to and
// including Revision.
type Position struct {
	Epoch    Epoch
	Revision Revision
}

// String returns the position as "epoch/revision", for logs.
func (p Position) String() string { return fmt.Sprintf("%s/%d", p.Epoch, p.Revision) }

// Decoded is an object before it is encoded: what the store and the value codec know of it.
type Decoded struct {
	Key            Key
	Value          []byte // may share memory with the store; must not be modified
	ContentType    string
	Labels         map[string]string
	Fields         []string // values of the resource's declared fields, in schema order
	Opaque         bool     // the codec could not decode the value
	Undecryptable  bool     // the value could not be decrypted; the object is also opaque and has no value
	CreateRevision Revision
	ModRevision    Revision // also the revision of the change that produced this object
	Version        int64
	Lease          int64 // the store's lease that removes the object when it expires; 0: none
}

// Object is one entry of a resource at one of its revisions. It is immutable.
//
// A server holds millions of objects, so an object is little more than its wire form, which is made
// once. Package wire makes it, and finds in it what is not here.
type Object struct {
	Key         Key // shares the memory of the wire form
	ModRevision Revision
	encoded     string
	rare        *rare // nil: it has nothing of that
}

// rare is what few objects have.
type rare struct {
	labels                map[string]string
	fields                []string
	lease                 int64
	opaque, undecryptable bool
}

// New returns an object with its wire form, which contains the key from index keyAt on. The bytes
// belong to the object from now on.
func New(d Decoded, encoded []byte, keyAt int) *Object {
	o := &Object{Key: d.Key, ModRevision: d.ModRevision}
	if len(encoded) > 0 {
		o.encoded = unsafe.String(&encoded[0], len(encoded))
		o.Key = Key(o.encoded[keyAt : keyAt+len(d.Key)])
	}
	if len(d.Labels) > 0 || len(d.Fields) > 0 || d.Lease != 0 || d.Opaque {
		o.rare = &rare{d.Labels, d.Fields, d.Lease, d.Opaque, d.Undecryptable}
	}
	return o
}

// IsKeyOnly reports whether the object only stands for its key: to look another one up, or as its
// tombstone.
func (o *Object) IsKeyOnly() bool { return o.encoded == "" }

// Encoded returns the wire form of the object. Its layout belongs to package wire. It is shared
// and must not be modified.
func (o *Object) Encoded() []byte { return unsafe.Slice(unsafe.StringData(o.encoded), len(o.encoded)) }

// Labels returns the labels, which must not be modified.
func (o *Object) Labels() map[string]string {
	if o.rare == nil {
		return nil
	}
	return o.rare.labels
}

// Fields returns the values of the resource's declared fields, in schema order.
func (o *Object) Fields() []string {
	if o.rare == nil {
		return nil
	}
	return o.rare.fields
}

// Lease returns the store's lease that removes the object when it expires, or 0.
func (o *Object) Lease() int64 {
	if o.rare == nil {
		return 0
	}
	return o.rare.lease
}

// Opaque reports whether the codec could not decode the value.
func (o *Object) Opaque() bool { return o.rare != nil && o.rare.opaque }

// Undecryptable reports whether the value could not be decrypted. The object is also opaque and has
// no value.
func (o *Object) Undecryptable() bool { return o.rare != nil && o.rare.undecryptable }

// CreateRevision returns the revision at which the key was created, or 0 if the object only stands
// for its key.
func (o *Object) CreateRevision() Revision {
	if o.IsKeyOnly() {
		return 0
	}
	b := o.Encoded()
	for range 2 { // the event, and the object in it, are the first fields of what contains them
		_, _, tag := protowire.ConsumeTag(b)
		b, _ = protowire.ConsumeBytes(b[tag:])
	}
	const createRevision = 7 // fanout.v1.Object.create_revision
	for len(b) > 0 {
		number, wireType, tag := protowire.ConsumeTag(b)
		if number == createRevision {
			r, _ := protowire.ConsumeVarint(b[tag:])
			return Revision(r)
		}
		b = b[tag+protowire.ConsumeFieldValue(number, wireType, b[tag:]):]
	}
	return 0
}

// Size returns the approximate memory use of the object in bytes: its wire form, and a fixed
// overhead.
func (o *Object) Size() int {
	const overhead = 100 // the struct, its share of tree nodes and allocator rounding
	return overhead + len(o.encoded)
}

// Change is one put or delete of a key at a revision, with the object before and
// after it. At least one of Old and New is set. A change is immutable after
// construction.
type Change struct {
	Revision Revision
	Key      Key
	Old      *Object // nil: the key did not exist
	New      *Object // nil: the key was deleted
}

// Size returns the approximate memory use of the change in bytes.
func (c *Change) Size() int {
	n := 64
	if c.Old != nil {
		n += c.Old.Size()
	}
	if c.New != nil {
		n += c.New.Size()
	}
	return n
}

// Build returns the object that a record holds. It always returns one; the error explains why the
// object is opaque.
func Build(c Codec, r *Record) (Decoded, error) {
	d := Decoded{
		Key:            r.Key,
		CreateRevision: r.CreateRevision,
		ModRevision:    r.ModRevision,
		Version:        r.Version,
		Lease:          r.Lease,
	}
	if r.Undecryptable != nil {
		d.Opaque, d.Undecryptable = true, true
		return d, r.Undecryptable
	}
	content, err := c.Decode(r.Value)
	if err != nil {
		d.Opaque = true
		content = OpaqueContent(r.Value)
	}
	d.Value, d.ContentType, d.Labels, d.Fields = content.Value, content.ContentType, content.Labels, content.Fields
	return d, err
}
