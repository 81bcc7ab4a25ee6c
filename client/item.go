package client

import (
	"bytes"
	"maps"
)

// Item is an object with its value decoded. Items are shared by all who ask for
// them and must not be changed.
type Item[T any] struct {
	// Value is what the decoder made of Object.
	Value T
	// Object is the object as it was received.
	Object *Object
	// Invalid says that there is a newer version of the object, and why it could not
	// be decoded. Value and Object are the last ones that could, maybe from before a
	// new epoch. Normally nil.
	Invalid error
}

// entry is what an informer keeps of an object. It is not changed once it is made.
type entry[T any] struct {
	item    Item[T]
	good    bool       // there is an item: the object, or an older one, was decoded
	newest  *Object    // item.Object, unless it is invalid
	indexed [][]string // by index: the values under which the item is found
}

// unchanged reports whether two objects are the same to whoever looks at them.
func unchanged(a, b *Object) bool {
	return a.ModRevision == b.ModRevision && a.CreateRevision == b.CreateRevision && a.Version == b.Version &&
		a.ContentType == b.ContentType && a.Opaque == b.Opaque && bytes.Equal(a.Value, b.Value) && maps.Equal(a.Labels, b.Labels)
}
