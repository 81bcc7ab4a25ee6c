// Package capacity calculates the capacity of servers from constants that fanoutbench has
// measured on one machine. It also simulates the failure of servers: when clients reconnect,
// and what that costs the remaining servers. It generates the tables of docs/dev/capacity.md.
package capacity
