package config

// Conventions: nobody needs more, and some of them are numbers of 32 bits elsewhere.
const (
	mostAtOnce = 10_000_000
	mostRate   = 1_000_000
)

// limits checks what clients may take, and the record of what they did.
func (v *validator) limits(c *Config) {
	for _, limit := range []struct {
		key   string
		value int
	}{
		{"max-watchers", c.MaxWatchers},
		{"max-watchers-per-client", c.MaxWatchersPerClient},
		{"max-selectors", c.MaxSelectors},
		{"max-selectors-per-client", c.MaxSelectorsPerClient},
		{"max-snapshots", c.MaxSnapshots},
		{"max-request-burst", c.MaxRequestBurst},
		{"max-connection-burst", c.MaxConnectionBurst},
		{"max-streams-per-connection", c.MaxStreamsPerConnection},
		{"max-connections", c.MaxConnections},
		{"max-connections-per-client", c.MaxConnectionsPerClient},
	} {
		between(v, limit.key, limit.value, 0, mostAtOnce)
	}
	// A page has up to 3 MiB.
	if least, most := 4*MiB, 64*GiB; c.MaxListMemory != 0 && (c.MaxListMemory < least || c.MaxListMemory > most) {
		v.add("max-list-memory", "must be 0 or from %v to %v, not %v", least, most, c.MaxListMemory)
	}
	if least, most := 16*MiB, 64*GiB; c.MaxRequestMemory != 0 && (c.MaxRequestMemory < least || c.MaxRequestMemory > most) {
		v.add("max-request-memory", "must be 0 or from %v to %v, not %v", least, most, c.MaxRequestMemory)
	}
	between(v, "max-request-size", c.MaxRequestSize, 64*KiB, GiB)
	// Everything that may be written has to fit, with its key and labels.
	if room := 64 * KiB; c.MaxValueSize <= largestValue && c.MaxRequestSize < c.MaxValueSize+room {
		v.add("max-request-size", "is %v, must be %v more than max-value-size, which is %v", c.MaxRequestSize, room, c.MaxValueSize)
	}
	for _, limit := range []struct {
		key  string
		rate float64
	}{{"max-request-rate", c.MaxRequestRate}, {"max-connection-rate", c.MaxConnectionRate}} {
		if rate := limit.rate; !(rate == 0 || rate >= 0.001 && rate <= mostRate) { // NaN is neither
			v.add(limit.key, "must be 0 or from 0.001 to %d, not %v", mostRate, rate)
		}
	}
	if c.MaxRequestBurst > 0 && c.MaxRequestRate == 0 {
		v.add("max-request-burst", "is set, but max-request-rate is not")
	}
	if c.MaxConnectionBurst > 0 && c.MaxConnectionRate == 0 {
		v.add("max-connection-burst", "is set, but max-connection-rate is not")
	}
	between(v, "audit-log-size", c.AuditLogSize, MiB, 64*GiB)
	between(v, "audit-log-backups", c.AuditLogBackups, 0, 10_000)
}
