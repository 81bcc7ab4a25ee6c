package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fanoutd/fanoutd/internal/config"
)

// configFlag is the only flag that is not a setting: it says where settings are.
const configFlag = "config"

// flagGroup is a part of the settings, as help shows them.
type flagGroup struct {
	title string
	flags *pflag.FlagSet
}

// bind makes a flag of every setting but the resources, which only a file can
// describe. The values in c are the defaults.
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
			fs.Var(&c.ShutdownGrace, "shutdown-grace", "how long a stop may take before requests are cut off")
			fs.Var(&c.DrainDelay, "drain-delay", "how long a server that stops goes on as before, apart from its health, so that load balancers notice")
			fs.Var(&c.DrainPeriod, "drain-period", "over how much time a server that stops then spreads the ends of watches, before the grace begins")
			fs.StringVar(&c.LogLevel, "log-level", c.LogLevel, "least `severity` that is logged: debug, info, warn or error")
			fs.StringVar(&c.LogFormat, "log-format", c.LogFormat, "`format` of the log on standard error: text or json")
		}),
		group("Limits", func(fs *pflag.FlagSet) {
			fs.IntVar(&c.MaxWatchers, "max-watchers", c.MaxWatchers, "`number` of watches at once; 0, here and below: no limit")
			fs.IntVar(&c.MaxWatchersPerClient, "max-watchers-per-client", c.MaxWatchersPerClient,
				"`number` of watches of one client, who is known by its identity or else by its address")
			fs.IntVar(&c.MaxSelectors, "max-selectors", c.MaxSelectors,
				"`number` of different selectors of watches that cost something with each change; a single label=value or indexed field=value does not")
			fs.IntVar(&c.MaxSelectorsPerClient, "max-selectors-per-client", c.MaxSelectorsPerClient, "`number` of such selectors of one client")
			fs.IntVar(&c.MaxSnapshots, "max-snapshots", c.MaxSnapshots, "`number` of snapshots and differences that are sent at once; the others wait for their turn")
			fs.Var(&c.MaxListMemory, "max-list-memory", "size of the responses of lists that are on their way")
			fs.Var(&c.MaxRequestSize, "max-request-size", "size of the largest request")
			fs.Var(&c.MaxRequestMemory, "max-request-memory", "size of the requests that are on their way")
			fs.Float64Var(&c.MaxRequestRate, "max-request-rate", c.MaxRequestRate, "`number` of requests that a client may begin per second")
			fs.IntVar(&c.MaxRequestBurst, "max-request-burst", c.MaxRequestBurst,
				"`number` of requests that it may begin at once when it has not asked for a while; 0: as many as in a second")
			fs.IntVar(&c.MaxStreamsPerConnection, "max-streams-per-connection", c.MaxStreamsPerConnection, "`number` of requests and watches on one connection")
			fs.IntVar(&c.MaxConnections, "max-connections", c.MaxConnections, "`number` of connections at once")
			fs.IntVar(&c.MaxConnectionsPerClient, "max-connections-per-client", c.MaxConnectionsPerClient, "`number` of connections from one address")
			fs.Float64Var(&c.MaxConnectionRate, "max-connection-rate", c.MaxConnectionRate,
				"`number` of connections that one address may begin per second; the others wait for their turn")
			fs.IntVar(&c.MaxConnectionBurst, "max-connection-burst", c.MaxConnectionBurst,
				"`number` of connections that it may begin at once when it has begun none for a while; 0: as many as in a second")
		}),
		group("Audit log", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.AuditLog, "audit-log", c.AuditLog, "`file` with a line of JSON for each write, denial and act of an operator; -: standard error; empty: none")
			fs.Var(&c.AuditLogSize, "audit-log-size", "size at which the file is rotated, in whole MiB")
			fs.IntVar(&c.AuditLogBackups, "audit-log-backups", c.AuditLogBackups, "`number` of rotated files that are kept; 0: all")
		}),
		group("HTTP and JSON", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.AdminListen, "admin-listen", c.AdminListen,
				"`address` of HTTP and JSON; empty: nowhere")
			fs.StringSliceVar(&c.AdminHosts, "admin-hosts", c.AdminHosts,
				"`names` under which it is reached, with commas between them; addresses and localhost need not be named")
			fs.BoolVar(&c.Pprof, "pprof", c.Pprof, "whether it serves Go's profiles below /debug/pprof/")
		}),
		group("Observability", func(fs *pflag.FlagSet) {
			fs.Var(&c.SlowRequest, "slow-request", "how long a request, the first message of a watch or a catch-up may take without being logged; 0s: for ever")
			fs.StringVar(&c.OTLPEndpoint, "otlp-endpoint", c.OTLPEndpoint,
				"`URL` of the collector that traces are sent to (OTLP over gRPC), such as http://127.0.0.1:4317; https:// means TLS; empty: no traces")
			fs.Float64Var(&c.TraceSampleRatio, "trace-sample-ratio", c.TraceSampleRatio,
				"`part` of the requests that are traced, from 0 to 1; those whose caller has decided follow the caller")
		}),
		group("TLS", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.TLSCertFile, "tls-cert-file", c.TLSCertFile,
				"`file` with the certificate (PEM) of gRPC and of HTTP, which is read again when it changes; empty: plain text")
			fs.StringVar(&c.TLSKeyFile, "tls-key-file", c.TLSKeyFile, "`file` with the private key (PEM) of that certificate")
			fs.StringVar(&c.TLSClientCAFile, "tls-client-ca-file", c.TLSClientCAFile,
				"`file` with the certificate authorities (PEM) of clients; a certificate of theirs says who a caller is")
			fs.StringVar(&c.TLSClientAuth, "tls-client-auth", c.TLSClientAuth,
				"whether clients have to show a `certificate`, where tls-client-ca-file is set: optional or required")
			fs.BoolVar(&c.Insecure, "insecure", c.Insecure,
				"listen in plain text on addresses that other machines reach: for networks that something else protects")
		}),
		group("Callers", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.TokenFile, "token-file", c.TokenFile,
				"`file` with the tokens that callers may show; \"fanoutd token create\" makes its lines")
			fs.StringVar(&c.JWTIssuer, "jwt-issuer", c.JWTIssuer, "`issuer` (OpenID Connect) of the JWTs that callers may show, as in their claim iss")
			fs.StringVar(&c.JWTAudience, "jwt-audience", c.JWTAudience, "`audience` that a JWT must be for, as in its claim aud")
			fs.StringVar(&c.JWTJWKSFile, "jwt-jwks-file", c.JWTJWKSFile, "`file` with the public keys (JWKS) of the issuer; empty: they are got from the issuer")
			fs.StringVar(&c.JWTCAFile, "jwt-ca-file", c.JWTCAFile, "`file` with the certificate authorities (PEM) of the issuer's address instead of the system's")
			fs.StringVar(&c.JWTNameClaim, "jwt-name-claim", c.JWTNameClaim, "`claim` of a JWT that is the caller's name")
			fs.StringVar(&c.JWTGroupsClaim, "jwt-groups-claim", c.JWTGroupsClaim, "`claim` of a JWT that has the caller's groups")
		}),
		group("Authorization", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.PolicyFile, "policy-file", c.PolicyFile,
				"`file` (YAML) that says who may do what, followed while the server runs; without one everything is allowed")
		}),
		group("Reads", func(fs *pflag.FlagSet) {
			fs.Var(&c.WatchTimeLimit, "watch-time-limit",
				"how long a watch may take: each ends, with a last position, after 80 to 100 percent of it, so that subscribers spread over servers; 0s: no limit")
			fs.Var(&c.SelfCheckInterval, "self-check-interval", "how often the objects in memory are compared with etcd; 0s: never")
		}),
		group("Writes", func(fs *pflag.FlagSet) {
			fs.BoolVar(&c.Writes, "writes", c.Writes, "whether StoreService is served: Put, Delete and Transact")
			fs.Var(&c.MaxValueSize, "max-value-size", "size of the largest value that is written")
			fs.IntVar(&c.MaxTransactionOperations, "max-transaction-operations", c.MaxTransactionOperations,
				"`number` of operations in the largest transaction; an external etcd takes 128 unless its own --max-txn-ops says otherwise")
		}),
		group("Encryption in etcd", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.KeysetFile, "keyset-file", c.KeysetFile,
				"`file` with the keys that values are encrypted with, see fanoutd keyset; without it they are not")
		}),
		group("Embedded etcd", func(fs *pflag.FlagSet) {
			fs.StringVar(&c.DataDir, "data-dir", c.DataDir, "`directory` of the database, created when needed")
			fs.Var(&c.EmbeddedEtcdQuota, "embedded-etcd-quota", "size of the database at which writes are refused")
			fs.Var(&c.EmbeddedEtcdRetention, "embedded-etcd-retention", "how much history is kept; after a restart, older positions cannot be replayed")
			fs.StringVar(&c.EmbeddedEtcdListen, "embedded-etcd-listen", c.EmbeddedEtcdListen,
				"`address` at which the embedded etcd serves etcd's own protocol, unprotected; without it nobody else can reach it")
		}),
		group("External etcd", func(fs *pflag.FlagSet) {
			fs.StringSliceVar(&c.EtcdEndpoints, "etcd-endpoints", c.EtcdEndpoints,
				"`members` of the cluster, as host:port or URL with commas between them; without any, there is an embedded etcd")
			fs.Var(&c.EtcdDialTimeout, "etcd-dial-timeout", "how long connecting may take at start")
			fs.StringVar(&c.EtcdCAFile, "etcd-ca-file", c.EtcdCAFile, "`file` with the certificate authorities (PEM) of etcd's certificate instead of the system's")
			fs.StringVar(&c.EtcdServerName, "etcd-server-name", c.EtcdServerName, "`name` that etcd's certificate must have instead of the host of the endpoint")
			fs.StringVar(&c.EtcdCertFile, "etcd-cert-file", c.EtcdCertFile, "`file` with the certificate (PEM) that is shown to etcd")
			fs.StringVar(&c.EtcdKeyFile, "etcd-key-file", c.EtcdKeyFile, "`file` with the private key (PEM) of that certificate")
			fs.StringVar(&c.EtcdUsername, "etcd-username", c.EtcdUsername, "`user` that logs in to etcd")
			fs.StringVar(&c.EtcdPasswordFile, "etcd-password-file", c.EtcdPasswordFile, "`file` with the password of that user; or else the variable FANOUTD_ETCD_PASSWORD has it")
		}),
	}
}

// commandLine makes the flags of the command line. Their values are not used
// before [load] lays them over the other sources.
func commandLine() []flagGroup {
	c := config.Defaults()
	groups := bind(&c)
	general := pflag.NewFlagSet("", pflag.ContinueOnError)
	general.String(configFlag, "", "configuration `file` (YAML)")
	return append([]flagGroup{{"General", general}}, groups...)
}

// sources makes a flag of everything that can be set from outside of the file.
// Others can read command lines, so the password is a variable only.
func sources(c *config.Config) *pflag.FlagSet {
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	for _, g := range bind(c) {
		set.AddFlagSet(g.flags)
	}
	set.Var(&c.EtcdPassword, "etcd-password", "")
	return set
}

// lineWidth is where help breaks lines.
const lineWidth = 100

// usage writes how a command is called, with the settings in groups.
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
	if own.HasFlags() {
		groups = append([]flagGroup{{"Flags of " + cmd.CommandPath(), own}}, groups...)
	}
	for _, g := range groups {
		fmt.Fprintf(&b, "\n%s:\n%s", g.title, g.flags.FlagUsagesWrapped(lineWidth))
	}
	_, err := fmt.Fprint(cmd.OutOrStderr(), b.String())
	return err
}
