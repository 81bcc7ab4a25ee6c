package quota

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

// connectionLimits are all limits that refuse or close connections.
var connectionLimits = []ConnectionLimit{MaxConnections, MaxConnectionsPerClient, MaxConnectionRate, MaxResetRate, MaxResetRatePerClient}

// refuseConnection counts and logs a connection that a limit refuses or closes.
func (l *Limiter) refuseConnection(limit ConnectionLimit, client Client) {
	l.refusedConnections[limit].Add(1)
	l.throttle.note(limit, func(times int) {
		l.log.Warn("connections are refused or closed because of a limit", "limit", string(limit), "connections", times, "client", client.String())
	})
}

// AcceptFailed counts and logs that a connection could not be accepted. The listener tries
// again.
func (l *Limiter) AcceptFailed(err error) {
	l.acceptFailures.Add(1)
	l.throttle.note("accept", func(times int) { l.log.Error("cannot accept connections", "attempts", times, "error", err) })
}
