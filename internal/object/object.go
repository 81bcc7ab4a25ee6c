package object

import (
	"fmt"
)

// Revision is an etcd revision: the number of the transaction that made a change.
// It is the same on every replica. Zero is before the first change.
type Revision int64

// Epoch identifies a revision space. Revisions of different epochs have nothing
// to do with each other. Epochs are opaque and comparable.
type Epoch string

// Position is a place in the history of a resource: every change up to and
// including Revision is behind it.
type Position struct {
	Epoch    Epoch
	Revision Revision
}

// String returns the position as "epoch/revision", for logs.
func (p Position) String() string { return fmt.Sprintf("%s/%d", p.Epoch, p.Revision) }

// Object is one entry of a resource at one of its revisions. It is frozen once
// it is built.
type Object struct {
	Key            Key
	Value          []byte // must not be modified; part of Encoded once that is set
	ContentType    string
	Labels         map[string]string
	Fields         []string // values of the resource's declared fields, in their order
	Opaque         bool     // the codec could not decode the value
	Undecryptable  bool     // it is opaque for that, and has no value
	CreateRevision Revision
	ModRevision    Revision // also the revision of the change that made it
	Version        int64

	// Encoded is the object in the form in which it goes over the wire, made
	// once when the object is built. What is in it is package wire's business.
	Encoded []byte
}

// Size returns the bytes of memory that the object accounts for, roughly: its
// encoded form or its value, and what surrounds it.
func (o *Object) Size() int {
	const overhead = 200 // the struct, its share of tree nodes and allocator rounding
	return overhead + len(o.Key) + max(len(o.Encoded), len(o.Value))
}

// Change is one put or delete of a key at a revision, with what was there before
// and after. At least one of Old and New is set. It is frozen once it is built.
type Change struct {
	Revision Revision
	Key      Key
	Old      *Object // nil: the key did not exist
	New      *Object // nil: the key was deleted
}

// Told returns the revision at which those who see the change are told that it
// happened. It lies before Revision where the change is one of the differences that
// were found at Revision, and it is known when the object became what it is.
func (c *Change) Told() Revision {
	if c.New != nil {
		return c.New.ModRevision
	}
	return c.Revision
}

// Size returns the bytes of memory that remembering the change accounts for.
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

// Record is a key as the store holds it, or its deletion.
type Record struct {
	Key            Key
	Value          []byte // may share memory with the store: must not be modified
	CreateRevision Revision
	ModRevision    Revision // of a deletion: its revision
	Version        int64
	Deleted        bool // the key was deleted; only Key and ModRevision are set

	// Undecryptable says why there is no value; nil: there is.
	Undecryptable *UndecryptableError
}

// Build makes the object that a record holds, up to its encoded form. It does so in
// any case; the error says why the object is opaque.
func Build(c Codec, r *Record) (*Object, error) {
	o := &Object{
		Key:            r.Key,
		CreateRevision: r.CreateRevision,
		ModRevision:    r.ModRevision,
		Version:        r.Version,
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
