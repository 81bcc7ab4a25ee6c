package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// etcd limits the size of a request. The difference leaves room for a key, labels and
// preconditions.
const (
	etcdRequestLimit = 1536 * KiB
	largestValue     = etcdRequestLimit - 64*KiB
)

// Problems validates the configuration and returns all problems.
func (c *Config) Problems() Problems {
	var v validator
	v.check("listen", checkAddress(c.Listen))
	between(&v, "shutdown-grace", c.ShutdownGrace, Duration(100*time.Millisecond), Duration(time.Hour))
	between(&v, "drain-delay", c.DrainDelay, 0, Duration(time.Hour))
	between(&v, "drain-period", c.DrainPeriod, 0, Duration(time.Hour))
	v.limits(c)
	v.oneOf("log-level", c.LogLevel, "debug", "info", "warn", "error")
	v.oneOf("log-format", c.LogFormat, "text", "json")
	if c.AdminListen != "" {
		v.check("admin-listen", checkAddress(c.AdminListen))
	}
	v.each("admin-hosts", c.AdminHosts, checkHost)
	v.each("http-origins", c.HTTPOrigins, checkOrigin)
	v.each("status-page-servers", c.StatusPageServers, checkOrigin)
	v.oneOf("pprof", c.Pprof, PprofAlways, PprofLoopback, PprofNever)
	v.transport(c)
	v.authentication(c)
	orZero(&v, "slow-request", c.SlowRequest, Duration(time.Millisecond), Duration(time.Hour))
	if c.OTLPEndpoint != "" {
		v.check("otlp-endpoint", checkCollector(c.OTLPEndpoint))
	}
	if r := c.TraceSampleRatio; !(r >= 0 && r <= 1) { // NaN fails both comparisons
		v.add("trace-sample-ratio", "must be from 0 to 1, not %v", r)
	}
	v.etcd(c)
	v.cluster(c)
	if c.DataDir == "" {
		v.add("data-dir", "must not be empty")
	}
	if c.EmbeddedEtcdListen != "" {
		v.check("embedded-etcd-listen", checkAddress(c.EmbeddedEtcdListen))
	}
	between(&v, "embedded-etcd-quota", c.EmbeddedEtcdQuota, 16*MiB, 64*GiB)
	between(&v, "embedded-etcd-retention", c.EmbeddedEtcdRetention, Duration(time.Second), Duration(720*time.Hour))
	between(&v, "max-value-size", c.MaxValueSize, 1, largestValue)
	between(&v, "max-transaction-operations", c.MaxTransactionOperations, 1, 10_000)
	between(&v, "max-ttl", c.MaxTTL, Duration(time.Second), Duration(10*365*24*time.Hour))
	orZero(&v, "watch-time-limit", c.WatchTimeLimit, Duration(time.Second), Duration(720*time.Hour))
	orZero(&v, "self-check-interval", c.SelfCheckInterval, Duration(time.Second), Duration(720*time.Hour))
	v.resources(c)
	return v.problems
}

type validator struct{ problems Problems }

func (v *validator) add(key, format string, args ...any) {
	v.problems = append(v.problems, Problem{Key: key, Message: fmt.Sprintf(format, args...)})
}

func (v *validator) check(key string, err error) {
	if err != nil {
		v.add(key, "%v", err)
	}
}

func (v *validator) oneOf(key, value string, values ...string) {
	if !slices.Contains(values, value) {
		v.add(key, "must be one of %s, not %q", strings.Join(values, ", "), value)
	}
}

func between[T cmp.Ordered](v *validator, key string, value, least, most T) {
	if value < least || value > most {
		v.add(key, "must be from %v to %v, not %v", least, most, value)
	}
}

// orZero validates a value that may also be 0, which means none.
func orZero[T Duration | Size](v *validator, key string, value, least, most T) {
	if value != 0 && (value < least || value > most) {
		v.add(key, "must be %v or from %v to %v, not %v", T(0), least, most, value)
	}
}

// each validates the items of a list.
func (v *validator) each(key string, items []string, check func(string) error) {
	for i, item := range items {
		v.check(fmt.Sprintf("%s[%d]", key, i), check(item))
	}
}

// setting is a setting and its value.
type setting struct{ key, value string }

// needs refuses settings that are set although another one is not.
func (v *validator) needs(other string, settings ...setting) {
	for _, s := range settings {
		if s.value != "" {
			v.add(s.key, "is set, but %s is not", other)
		}
	}
}

// etcd validates the settings of an external etcd.
func (v *validator) etcd(c *Config) {
	between(v, "etcd-dial-timeout", c.EtcdDialTimeout, Duration(100*time.Millisecond), Duration(10*time.Minute))
	tls := []setting{
		{"etcd-ca-file", c.EtcdCAFile},
		{"etcd-cert-file", c.EtcdCertFile},
		{"etcd-key-file", c.EtcdKeyFile},
		{"etcd-server-name", c.EtcdServerName},
	}
	login := []setting{
		{"etcd-username", c.EtcdUsername},
		{"etcd-password", string(c.EtcdPassword)},
		{"etcd-password-file", c.EtcdPasswordFile},
	}
	if len(c.EtcdEndpoints) == 0 {
		// If the list of endpoints is forgotten, do not start an empty embedded etcd.
		v.needs("etcd-endpoints", slices.Concat(tls, login)...)
		return
	}
	if c.EmbeddedEtcdListen != "" {
		v.add("embedded-etcd-listen", "cannot be set with etcd-endpoints, because there is no embedded etcd")
	}
	v.each("etcd-endpoints", c.EtcdEndpoints, checkEndpoint)
	secure := 0
	for _, endpoint := range c.EtcdEndpoints {
		if strings.HasPrefix(endpoint, "https://") {
			secure++
		}
	}
	// etcd's client enables TLS by its first endpoint.
	if secure > 0 && secure < len(c.EtcdEndpoints) {
		v.add("etcd-endpoints", "either all or none of them must begin with https://")
	}
	isPlain := func(endpoint string) bool { return strings.HasPrefix(endpoint, "http://") }
	for _, s := range tls {
		if s.value != "" && slices.ContainsFunc(c.EtcdEndpoints, isPlain) {
			v.add(s.key, "is set, but etcd-endpoints contains http://, which does not use TLS")
		}
	}
	v.together("etcd-cert-file", c.EtcdCertFile, "etcd-key-file", c.EtcdKeyFile)
	if c.EtcdPassword != "" && c.EtcdPasswordFile != "" {
		v.add("etcd-password-file", "cannot be set with etcd-password")
	}
	if (c.EtcdUsername == "") != (c.EtcdPassword == "" && c.EtcdPasswordFile == "") {
		v.add("etcd-username", "must be set together with a password")
	}
}

func (v *validator) resources(c *Config) {
	resources := c.Resources
	if len(resources) == 0 {
		v.add("resources", "at least one resource is required")
	}
	for i := range resources {
		r := &resources[i]
		path := fmt.Sprintf("resources[%d].", i)
		v.check(path+"name", checkResourceName(r.Name))
		v.check(path+"prefix", checkPrefix(r.Prefix))
		v.oneOf(path+"codec", r.Codec, object.CodecNames()...)
		v.oneOf(path+"encrypt", r.Encrypt, encryptAuto, encryptOn, encryptOff)
		if r.Encrypt == encryptOn && c.KeysetFile == "" {
			v.add(path+"encrypt", "is on, but keyset-file is not set")
		}
		v.schema(path, r)
		v.window(path+"window.", r.Window)
		between(v, path+"log.max-size", r.Log.MaxSize, MiB, 64*GiB)
		between(v, path+"log.freshness", r.Log.Freshness, Duration(time.Second), Duration(720*time.Hour))
		between(v, path+"max-tombstones", r.MaxTombstones, 1, 10_000_000)
		v.history(path, resources, i)
		for j, other := range resources[:i] {
			switch {
			case r.Name == other.Name:
				v.add(path+"name", "duplicate name %q, also used by resources[%d]", r.Name, j)
			case strings.HasPrefix(r.Prefix, other.Prefix), strings.HasPrefix(other.Prefix, r.Prefix):
				v.add(path+"prefix", "%q overlaps with %q of resources[%d]", r.Prefix, other.Prefix, j)
			}
		}
	}
}

func (v *validator) window(path string, w Window) {
	const most = 10_000_000
	between(v, path+"max-events", w.MaxEvents, 1, most)
	between(v, path+"min-events", w.MinEvents, 1, most)
	if w.MaxEvents >= 1 && w.MinEvents > w.MaxEvents {
		v.add(path+"min-events", "is %d, but must not exceed max-events (%d)", w.MinEvents, w.MaxEvents)
	}
	between(v, path+"max-size", w.MaxSize, KiB, 64*GiB)
	between(v, path+"freshness", w.Freshness, Duration(time.Second), Duration(720*time.Hour))
}

// These limits are arbitrary and well above normal use. Some numbers have 32 bits elsewhere.
const (
	maxCount = 10_000_000
	maxRate  = 1_000_000
)

func (v *validator) rate(key string, rate float64) {
	if !(rate == 0 || rate >= 0.001 && rate <= maxRate) { // NaN fails both
		v.add(key, "must be 0 or from 0.001 to %d, not %v", maxRate, rate)
	}
}

// limits validates the limits of clients and the audit log.
func (v *validator) limits(c *Config) {
	between(v, "max-watchers", c.MaxWatchers, 0, maxCount)
	between(v, "max-watchers-per-client", c.MaxWatchersPerClient, 0, maxCount)
	between(v, "max-waits", c.MaxWaits, 0, maxCount)
	between(v, "max-waits-per-client", c.MaxWaitsPerClient, 0, maxCount)
	between(v, "max-selectors", c.MaxSelectors, 0, maxCount)
	between(v, "max-selectors-per-client", c.MaxSelectorsPerClient, 0, maxCount)
	between(v, "max-snapshots", c.MaxSnapshots, 0, maxCount)
	between(v, "max-waiting-snapshots", c.MaxWaitingSnapshots, 0, maxCount)
	between(v, "max-request-burst", c.MaxRequestBurst, 0, maxCount)
	between(v, "max-connection-burst", c.MaxConnectionBurst, 0, maxCount)
	between(v, "max-streams-per-connection", c.MaxStreamsPerConnection, 0, maxCount)
	between(v, "max-connections", c.MaxConnections, 0, maxCount)
	between(v, "max-connections-per-client", c.MaxConnectionsPerClient, 0, maxCount)
	// A page of a List has up to 3 MiB.
	orZero(v, "max-list-memory", c.MaxListMemory, 4*MiB, 64*GiB)
	orZero(v, "max-request-memory", c.MaxRequestMemory, 16*MiB, 64*GiB)
	between(v, "max-request-size", c.MaxRequestSize, 64*KiB, GiB)
	// The largest value must fit with its key and labels.
	if room := 64 * KiB; c.MaxValueSize <= largestValue && c.MaxRequestSize < c.MaxValueSize+room {
		v.add("max-request-size", "is %v, but must be at least %v more than max-value-size (%v)", c.MaxRequestSize, room, c.MaxValueSize)
	}
	v.rate("max-request-rate", c.MaxRequestRate)
	v.rate("max-report-rate", c.MaxReportRate)
	v.rate("max-connection-rate", c.MaxConnectionRate)
	v.rate("max-reset-rate", c.MaxResetRate)
	v.rate("max-reset-rate-per-client", c.MaxResetRatePerClient)
	if c.MaxRequestBurst > 0 && c.MaxRequestRate == 0 {
		v.add("max-request-burst", "is set, but max-request-rate is not")
	}
	if c.MaxConnectionBurst > 0 && c.MaxConnectionRate == 0 {
		v.add("max-connection-burst", "is set, but max-connection-rate is not")
	}
	between(v, "reserved-files", c.ReservedFiles, 50, 1_000_000)
	between(v, "audit-log-size", c.AuditLogSize, MiB, 64*GiB)
	between(v, "audit-log-backups", c.AuditLogBackups, 0, 10_000)
}
