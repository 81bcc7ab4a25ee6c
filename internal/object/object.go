package object

import "fmt"

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

// Object is one entry of a resource at one of its revisions. It is immutable after
// construction.
type Object struct {
	Key            Key
	Value          []byte // must not be modified; part of Encoded once that is set
	ContentType    string
	Labels         map[string]string
	Fields         []string // values of the resource's declared fields, in schema order
	Opaque         bool     // the codec could not decode the value
	Undecryptable  bool     // the value could not be decrypted; the object is also opaque and has no value
	CreateRevision Revision
	ModRevision    Revision // also the revision of the change that produced this object
	Version        int64
	Lease          int64 // the store's lease that removes the object when it expires; 0: none

	// Encoded is the wire form of the object, made once when the object is built.
	// Its layout belongs to package wire.
	Encoded []byte
}

// Size returns the approximate memory use of the object in bytes: its encoded form
// or its value, and a fixed overhead.
func (o *Object) Size() int {
	const overhead = 200 // the struct, its share of tree nodes and allocator rounding
	return overhead + len(o.Key) + max(len(o.Encoded), len(o.Value))
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

// Build returns the object that a record holds, without its encoded form. It always
// returns an object; the error explains why the object is opaque.
func Build(c Codec, r *Record) (*Object, error) {
	o := &Object{
		Key:            r.Key,
		CreateRevision: r.CreateRevision,
		ModRevision:    r.ModRevision,
		Version:        r.Version,
		Lease:          r.Lease,
	}
	if r.Undecryptable != nil {
		o.Opaque, o.Undecryptable = true, true
		return o, r.Undecryptable
	}
	content, err := c.Decode(r.Value)
	if err != nil {
		o.Opaque = true
		content = OpaqueContent(r.Value)
	}
	o.Value, o.ContentType, o.Labels, o.Fields = content.Value, content.ContentType, content.Labels, content.Fields
	return o, err
}
