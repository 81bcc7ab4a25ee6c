// Package tally counts what watchers receive: which events came, which did not, which
// came twice or too late, and how long they took.
//
// Events are numbered by whoever writes them. Event n is a change of key n modulo the
// number of keys, and the changes of one key are written one after another; so the
// changes of each key have an order that each watcher of that key must see. Between
// keys the writer has several writes under way and says nothing of their order.
package tally
