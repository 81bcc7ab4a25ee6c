package quota

import (
	"log/slog"
	"sync/atomic"

	"golang.org/x/time/rate"
)

// ConnectionLimit is the name of a limit that refuses or closes connections: the setting of
// the server that sets it.
type ConnectionLimit string

// The limits that refuse connections, and those that close them.
const (
	MaxConnections          ConnectionLimit = "max-connections"
	MaxConnectionsPerClient ConnectionLimit = "max-connections-per-client"
	MaxConnectionRate       ConnectionLimit = "max-connection-rate"
	MaxResetRate            ConnectionLimit = "max-reset-rate"
	MaxResetRatePerClient   ConnectionLimit = "max-reset-rate-per-client"
)

// ConnectionLimits are all limits that refuse or close connections.
var ConnectionLimits = []ConnectionLimit{MaxConnections, MaxConnectionsPerClient, MaxConnectionRate, MaxResetRate, MaxResetRatePerClient}

// connectionRefusals counts and logs connections that a limit refuses or closes.
type connectionRefusals struct {
	log             *slog.Logger
	limits          map[ConnectionLimit]*refusedConnections
	acceptFailures  atomic.Int64
	acceptSometimes rate.Sometimes // limits the log lines about them
}

// refusedConnections are those of one limit.
type refusedConnections struct {
	count     atomic.Int64
	sometimes rate.Sometimes // limits the log lines
}

func newConnectionRefusals(log *slog.Logger) *connectionRefusals {
	r := &connectionRefusals{log: log, limits: map[ConnectionLimit]*refusedConnections{}, acceptSometimes: rate.Sometimes{Interval: refusalInterval}}
	for _, limit := range ConnectionLimits {
		r.limits[limit] = &refusedConnections{sometimes: rate.Sometimes{Interval: refusalInterval}}
	}
	return r
}

// note counts a connection of a client.
func (r *connectionRefusals) note(limit ConnectionLimit, client Client) {
	of := r.limits[limit]
	total := of.count.Add(1)
	of.sometimes.Do(func() {
		r.log.Warn("connections are refused or closed because of a limit", "limit", string(limit), "connections_so_far", total, "client", client.String())
	})
}

// counts returns how many connections each limit has refused or closed.
func (r *connectionRefusals) counts() map[ConnectionLimit]int64 {
	all := map[ConnectionLimit]int64{}
	for limit, of := range r.limits {
		all[limit] = of.count.Load()
	}
	return all
}

// AcceptFailed counts and logs that a connection could not be accepted. The listener tries
// again.
func (l *Limiter) AcceptFailed(err error) {
	r := l.refusedConnections
	r.acceptFailures.Add(1)
	r.acceptSometimes.Do(func() { r.log.Error("cannot accept connections", "error", err) })
}
