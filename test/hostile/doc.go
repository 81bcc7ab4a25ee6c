// Package hostile runs clients that do harm, on purpose or not, against a fanoutd in its
// own process. They never read, ask for as much as they may, connect and leave all the time,
// or do not finish what they start. A well-behaved client beside them must receive
// everything, with little delay.
package hostile
