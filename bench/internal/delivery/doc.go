// Package delivery counts the events that the watchers of a process receive. A Counter
// records which events arrived, were lost, arrived twice or arrived out of order, and how
// long each of them took.
//
// The writer numbers the events. Event n changes the key with number n modulo the number
// of keys. The writer writes the changes of one key one after another, so each watcher of
// the key must see them in order. Changes of different keys have no order, because several
// writes are in flight at once.
package delivery
