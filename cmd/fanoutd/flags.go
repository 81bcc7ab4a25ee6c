package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/config"
)

// configFlag is the only flag that is not a setting: it names the configuration file.
const configFlag = "config"

// flagGroup is a group of settings in the help text.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// bind defines a flag for each setting except the resources and the cluster, which only a file can contain.
// The values in c are the defaults.
func bind(c *config.Config) []flagGroup {
	group := func(title string, define func(fs *pflag.FlagSet)) flagGroup {
		fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
		fs.SortFlags = false
		define(fs)
		return flagGroup{title, fs}
	}
	return []flagGroup{
		group("Server", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.Listen, "listen", c.Listen, "`address` of the gRPC service, as host:port; an empty host means all addresses of the machine")
			fs.Var(&c.ShutdownGrace, "shutdown-grace", "time for running requests during a shutdown, after the drain (100ms to 1h)")
			fs.Var(&c.DrainDelay, "drain-delay", "during a shutdown, time to report unhealthy but accept connections and watches, so that load balancers notice (at most 1h)")
			fs.Var(&c.DrainPeriod, "drain-period", "during a shutdown, time over which watches are ended, one connection after another (at most 1h)")
			fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "minimum `severity` to log: debug, info, warn or error")
			fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "`format` of the log on standard error: text or json")
		}),
		group("Limits (0: no limit)", func(fs *pflag.FlagSet) {
			fs.IntVar(&c.MaxWatchers, "max-watchers", c.MaxWatchers, "maximum `number` of watches")
			fs.IntVar(&c.MaxWatchersPerClient, "max-watchers-per-client", c.MaxWatchersPerClient,
				"maximum `number` of watches per client, identified by its credentials or else by its address")
			fs.IntVar(&c.MaxWaits, "max-waits", c.MaxWaits, "maximum `number` of requests that wait until watchers have applied a revision")
			fs.IntVar(&c.MaxWaitsPerClient, "max-waits-per-client", c.MaxWaitsPerClient, "maximum `number` of such requests per client")
			fs.IntVar(&c.MaxSelectors, "max-selectors", c.MaxSelectors,
				"maximum `number` of distinct selectors of watches that must be evaluated for each change; label=value and indexed field=value do not count")
			fs.IntVar(&c.MaxSelectorsPerClient, "max-selectors-per-client", c.MaxSelectorsPerClient, "maximum `number` of such selectors per client")
			fs.IntVar(&c.MaxSnapshots, "max-snapshots", c.MaxSnapshots, "maximum `number` of catch-ups being sent; others wait")
			fs.IntVar(&c.MaxWaitingSnapshots, "max-waiting-snapshots", c.MaxWaitingSnapshots,
				"maximum `number` of new watches that wait to send their snapshot; a client gets no more of them than it leaves free")
			fs.Var(&c.MaxListMemory, "max-list-memory", "maximum total size of List responses being sent (4MiB to 64GiB); others wait")
			fs.Var(&c.MaxRequestSize, "max-request-size", "maximum size of a request (64KiB to 1GiB, and at least 64KiB more than max-value-size)")
			fs.Var(&c.MaxRequestMemory, "max-request-memory", "maximum total size of requests being received (16MiB to 64GiB); others wait")
			fs.Float64Var(&c.MaxRequestRate, "max-request-rate", c.MaxRequestRate, "maximum `number` of requests per second and client (default: no limit)")
			fs.IntVar(&c.MaxRequestBurst, "max-request-burst", c.MaxRequestBurst,
				"`number` of requests that an idle client may send at once (0: max-request-rate)")
			fs.Float64Var(&c.MaxReportRate, "max-report-rate", c.MaxReportRate, "maximum `number` of reports of watches per second and client")
			fs.IntVar(&c.MaxStreamsPerConnection, "max-streams-per-connection", c.MaxStreamsPerConnection, "maximum `number` of requests and watches per connection")
			fs.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "maximum `number` of connections, including HTTP")
			fs.IntVar(&c.MaxConnectionsPerClient, "max-connections-per-client", c.MaxConnectionsPerClient, "maximum `number` of connections per address")
			fs.Float64Var(&c.MaxConnectionRate, "max-connection-rate", c.MaxConnectionRate,
				"maximum `number` of new connections per second and address; others wait")
			fs.IntVar(&c.MaxConnectionBurst, "max-connection-burst", c.MaxConnectionBurst,
				"`number` of connections that an idle address may open at once (0: max-connection-rate)")
			fs.Float64Var(&c.MaxResetRate, "max-reset-rate", c.MaxResetRate,
				"maximum `number` of requests per second that a connection cancels as soon as they have begun; a connection that exceeds it is closed")
			fs.Float64Var(&c.MaxResetRatePerClient, "max-reset-rate-per-client", c.MaxResetRatePerClient, "the same `number` for all connections of a client")
			fs.IntVar(&c.ReservedFiles, "reserved-files", c.ReservedFiles,
				"`number` of file descriptors that connections leave free for the embedded etcd and log files (50 to 1000000); the limit of open files bounds connections accordingly")
		}),
		group("Audit log", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.AuditLog, "audit-log", c.AuditLog, "`file` for the audit log of writes, denials and operator actions, as JSON lines (-: standard error, empty: disabled)")
			fs.Var(&c.AuditLogSize, "audit-log-size", "size at which the file is rotated, in whole MiB (1MiB to 64GiB)")
			fs.IntVar(&c.AuditLogBackups, "audit-log-backups", c.AuditLogBackups, "`number` of rotated files to keep (0: all)")
		}),
		group("HTTP and JSON", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.AdminListen, "admin-listen", c.AdminListen,
				"`address` of the HTTP and JSON service, as host:port (empty: disabled)")
			fs.StringSliceVar(&c.AdminHosts, "admin-hosts", c.AdminHosts,
				"comma-separated `names` under which browsers reach it; IP addresses and localhost are always accepted")
			fs.StringSliceVar(&c.HTTPOrigins, "http-origins", c.HTTPOrigins,
				"comma-separated `origins`, such as https://app.example.com, whose pages may use it with the rights of their visitors")
			fs.StringSliceVar(&c.StatusPageServers, "status-page-servers", c.StatusPageServers,
				"comma-separated `origins`, such as https://node-1.example.com:7421, of the HTTP services of all servers over the same etcd, which the status page of each shows together")
			fs.StringVar(&c.Pprof, "pprof", c.Pprof, "`when` to serve Go profiles at /debug/pprof/: always, loopback (if admin-listen is a loopback address) or never")
			fs.BoolVar(&c.Channelz, "channelz", c.Channelz, "serve gRPC channelz, which slows deliveries by 8 to 10 %")
		}),
		group("Observability", func(fs *pflag.FlagSet) {
			fs.Var(&c.SlowRequest, "slow-request", "log requests, first messages of watches and catch-ups that take longer (1ms to 1h, 0s: never)")
			fs.StringVar(&c.OTLPEndpoint, "otlp-endpoint", c.OTLPEndpoint,
				"`URL` of an OTLP/gRPC collector for traces, such as http://127.0.0.1:4317 or https://collector:4317 (empty: disabled)")
			fs.Float64Var(&c.TraceSampleRatio, "trace-sample-ratio", c.TraceSampleRatio,
				"`ratio` of requests to trace, from 0 to 1, unless the caller has decided")
		}),
		group("TLS", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.TLSCertFile, "tls-cert-file", c.TLSCertFile,
				"`file` with the server certificate (PEM), reloaded when it changes (empty: plain text)")
			fs.StringVar(&c.TLSKeyFile, "tls-key-file", c.TLSKeyFile, "`file` with the private key (PEM) of the server certificate")
			fs.StringVar(&c.TLSClientCAFile, "tls-client-ca-file", c.TLSClientCAFile,
				"`file` with the certificate authorities (PEM) of client certificates, which identify clients")
			fs.StringVar(&c.TLSClientAuth, "tls-client-auth", c.TLSClientAuth,
				"`optional|required`: whether clients must present a certificate, if tls-client-ca-file is set")
			fs.BoolVar(&c.Insecure, "insecure", c.Insecure,
				"allow plain text on addresses that other machines can reach; only for protected networks")
		}),
		group("Authentication", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.TokenFile, "token-file", c.TokenFile,
				"`file` with the accepted bearer tokens; see \"fanoutd token create\"")
			fs.StringVar(&c.JWTIssuer, "jwt-issuer", c.JWTIssuer, "`issuer` (OpenID Connect) of accepted JWTs, as in their claim iss")
			fs.StringVar(&c.JWTAudience, "jwt-audience", c.JWTAudience, "required `audience` of JWTs, as in their claim aud")
			fs.StringVar(&c.JWTJWKSFile, "jwt-jwks-file", c.JWTJWKSFile, "`file` with the public keys (JWKS) of the issuer (empty: download them from the issuer)")
			fs.StringVar(&c.JWTCAFile, "jwt-ca-file", c.JWTCAFile, "`file` with the certificate authorities (PEM) to trust for the issuer instead of the system's")
			fs.StringVar(&c.JWTNameClaim, "jwt-name-claim", c.JWTNameClaim, "`claim` of a JWT with the name of the client")
			fs.StringVar(&c.JWTGroupsClaim, "jwt-groups-claim", c.JWTGroupsClaim, "`claim` of a JWT with the groups of the client")
		}),
		group("Authorization", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.PolicyFile, "policy-file", c.PolicyFile,
				"`file` (YAML) with the authorization policy, reloaded when it changes (empty: everything is allowed)")
		}),
		group("Reads", func(fs *pflag.FlagSet) {
			fs.Var(&c.WatchTimeLimit, "watch-time-limit",
				"end each watch, with a position to resume from, after 80 to 100 percent of this time, so that clients spread over servers (1s to 720h, 0s: no limit)")
			fs.Var(&c.SelfCheckInterval, "self-check-interval", "interval between comparisons of the cache with etcd (1s to 720h, 0s: never)")
		}),
		group("Writes", func(fs *pflag.FlagSet) {
			fs.BoolVar(&c.Writes, "writes", c.Writes, "serve StoreService: Put, Delete and Transact")
			fs.Var(&c.MaxValueSize, "max-value-size", "maximum size of a written value (at most 1472KiB)")
			fs.IntVar(&c.MaxTransactionOperations, "max-transaction-operations", c.MaxTransactionOperations,
				"maximum `number` of operations per transaction (at most 10000); an external etcd allows 128 unless its --max-txn-ops is higher")
			fs.Var(&c.MaxTTL, "max-ttl", "maximum time to live of a written object (1s to 87600h)")
		}),
		group("Encryption in etcd", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.KeysetFile, "keyset-file", c.KeysetFile,
				"`file` with the keys that encrypt values, reloaded when it changes; see \"fanoutd keyset\" (empty: no encryption)")
		}),
		group("Embedded etcd", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "`directory` of the database, created if it does not exist")
			fs.Var(&c.EmbeddedEtcdQuota, "embedded-etcd-quota", "database size at which writes are refused (16MiB to 64GiB)")
			fs.Var(&c.EmbeddedEtcdRetention, "embedded-etcd-retention", "how long to keep history; after a restart, older positions cannot be replayed (1s to 720h)")
			fs.StringVar(&c.EmbeddedEtcdListen, "embedded-etcd-listen", c.EmbeddedEtcdListen,
				"`address` of etcd's own client API, without authentication (empty: disabled)")
		}),
		group("External etcd", func(fs *pflag.FlagSet) {
			fs.StringSliceVar(&c.EtcdEndpoints, "etcd-endpoints", c.EtcdEndpoints,
				"comma-separated `endpoints` of the etcd cluster, as host:port or URL (empty: use an embedded etcd)")
			fs.Var(&c.EtcdDialTimeout, "etcd-dial-timeout", "time limit for connecting at start (100ms to 10m)")
			fs.StringVar(&c.EtcdCAFile, "etcd-ca-file", c.EtcdCAFile, "`file` with the certificate authorities (PEM) to trust for etcd instead of the system's")
			fs.StringVar(&c.EtcdServerName, "etcd-server-name", c.EtcdServerName, "`name` to expect in etcd's certificate instead of the host of the endpoint")
			fs.StringVar(&c.EtcdCertFile, "etcd-cert-file", c.EtcdCertFile, "`file` with the client certificate (PEM) for etcd")
			fs.StringVar(&c.EtcdKeyFile, "etcd-key-file", c.EtcdKeyFile, "`file` with the private key (PEM) of the client certificate")
			fs.StringVar(&c.EtcdUsername, "etcd-username", c.EtcdUsername, "`user` name for etcd")
			fs.StringVar(&c.EtcdPasswordFile, "etcd-password-file", c.EtcdPasswordFile, "`file` with the password of the user; alternatively set FANOUTD_ETCD_PASSWORD to the password")
		}),
	}
}

// commandLine returns the flags of the command line. Their values are used only by [load].
func commandLine() []flagGroup {
	c := config.Defaults()
	groups := bind(&c)
	general := pflag.NewFlagSet("", pflag.ContinueOnError)
	general.String(configFlag, "", "configuration `file` (YAML)")
	return append([]flagGroup{{"General", general}}, groups...)
}

// sources returns a flag for everything that can be set outside of the file. The password is
// not a command-line flag, because other users can see command lines.
func sources(c *config.Config) *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, g := range bind(c) {
		set.AddFlagSet(g.flags)
	}
	set.Var(&c.EtcdPassword, "etcd-password", "")
	return set
}

// helpWidth is the line width of the help text.
const helpWidth = 100

// usage prints the usage of a command. Only the root command lists the settings, in groups.
func usage(cmd *cobra.Command, groups []flagGroup) error {
	var b strings.Builder
	fmt.Fprintf(&b, "Usage:\n  %s\n", cmd.UseLine())
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(&b, "  %s [command]\n", cmd.CommandPath())
	}
	if cmd.HasExample() {
		fmt.Fprintf(&b, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		b.WriteString("\nCommands:\n")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() {
				fmt.Fprintf(&b, "  %-12s%s\n", sub.Name(), sub.Short)
			}
		}
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" {
			own.AddFlag(f)
		}
	})
	if cmd.HasParent() {
		groups = nil
	}
	if own.HasFlags() {
		groups = append([]flagGroup{{"Flags of " + cmd.CommandPath(), own}}, groups...)
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(helpWidth))
	}
	if cmd.HasParent() {
		b.WriteString("\nSettings are flags of all commands, such as --config; \"fanoutd --help\" lists them.\n")
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}
