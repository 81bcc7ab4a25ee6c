// Package hostile has clients that want to do harm, or do it without wanting to: that
// never read, ask for as much as they may, connect and leave all the time, or begin
// what they do not finish. Its test runs them against a fanoutd in a process of its
// own, beside one who behaves: who has to be told everything, and not much later.
package hostile
