package app

import (
	"strings"
	"time"
)

// Setting is one thing that can be set. Flags, variables, keys of the file, help
// and documentation are all made from the list of settings, so that they agree.
type Setting struct {
	Name    string // as a flag, without the dashes
	Key     string // in the file, dots between the levels
	Group   string // heading in help and documentation
	Meaning string // sentences

	kind     *kind
	oneOf    []string           // for texts, where there is a choice
	min, max int64              // for ordered kinds, both inclusive
	check    func(string) error // for texts, and each text of a list
	secret   bool               // never printed, and no flag: others can read command lines
}

// EnvPrefix begins the names of all variables.
const EnvPrefix = "FANOUTD_"

// Env returns the name of the environment variable.
func (s *Setting) Env() string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(s.Name, "-", "_"))
}

// HasFlag reports whether there is a flag for the setting.
func (s *Setting) HasFlag() bool { return !s.secret }

// Word says what a value is: text, duration, size and so on.
func (s *Setting) Word() string {
	if len(s.oneOf) > 0 {
		return strings.Join(s.oneOf, "|")
	}
	return s.kind.word
}

// IsBool reports whether the setting is on or off.
func (s *Setting) IsBool() bool { return s.kind == kindBool }

// IsList reports whether the setting has any number of values.
func (s *Setting) IsList() bool { return s.kind == kindList }

// Default returns the default as it would be written in a flag; empty if there
// is none.
func (s *Setting) Default() string { return s.kind.format(valuesOf(Defaults())[s.Key]) }

// What etcd bears. Its limit is for a whole request; the difference leaves room
// for a key, labels and preconditions.
const (
	etcdRequestLimit     = 1536 * KiB
	largestValue         = etcdRequestLimit - 64*KiB
	etcdTransactionLimit = 128
)

// Settings returns everything that can be set besides the resources.
func Settings() []Setting {
	return []Setting{
		{
			Name: "listen", Key: "listen", Group: "Server", kind: kindText, check: checkAddress,
			Meaning: "Address of the gRPC service, as host:port. An empty host means all addresses of the machine.",
		},
		{
			Name: "shutdown-grace", Key: "shutdown-grace", Group: "Server", kind: kindDuration,
			min: int64(100 * time.Millisecond), max: int64(time.Hour),
			Meaning: "How long a stop may take: streams end with a last position, then requests are cut off.",
		},
		{
			Name: "log-level", Key: "log.level", Group: "Server", kind: kindText,
			oneOf:   []string{"debug", "info", "warn", "error"},
			Meaning: "Least severity that is logged.",
		},
		{
			Name: "log-format", Key: "log.format", Group: "Server", kind: kindText,
			oneOf:   []string{"text", "json"},
			Meaning: "How log lines are written, to standard error.",
		},
		{
			Name: "etcd-endpoints", Key: "etcd.endpoints", Group: "External etcd", kind: kindList, check: checkEndpoint,
			Meaning: "Members of the etcd cluster, as host:port or URL; commas between them in a flag or variable. Without any, fanoutd runs an embedded etcd.",
		},
		{
			Name: "etcd-dial-timeout", Key: "etcd.dial-timeout", Group: "External etcd", kind: kindDuration,
			min: int64(100 * time.Millisecond), max: int64(10 * time.Minute),
			Meaning: "How long one attempt to connect to etcd may take.",
		},
		{
			Name: "etcd-ca-file", Key: "etcd.ca-file", Group: "External etcd", kind: kindText,
			Meaning: "File with the certificate authorities (PEM) that etcd's certificate is checked against. Default: those of the system.",
		},
		{
			Name: "etcd-cert-file", Key: "etcd.cert-file", Group: "External etcd", kind: kindText,
			Meaning: "File with the certificate (PEM) that is shown to etcd.",
		},
		{
			Name: "etcd-key-file", Key: "etcd.key-file", Group: "External etcd", kind: kindText,
			Meaning: "File with the private key (PEM) of that certificate.",
		},
		{
			Name: "etcd-server-name", Key: "etcd.server-name", Group: "External etcd", kind: kindText,
			Meaning: "Name that etcd's certificate must have, where it is not the host of the endpoint.",
		},
		{
			Name: "etcd-username", Key: "etcd.username", Group: "External etcd", kind: kindText,
			Meaning: "User that logs in to etcd.",
		},
		{
			Name: "etcd-password", Key: "etcd.password", Group: "External etcd", kind: kindText, secret: true,
			Meaning: "Password of that user. There is no flag for it, because others can read command lines.",
		},
		{
			Name: "etcd-password-file", Key: "etcd.password-file", Group: "External etcd", kind: kindText,
			Meaning: "File with the password; a line break at its end does not belong to it.",
		},
		{
			Name: "data-dir", Key: "embedded.data-dir", Group: "Embedded etcd", kind: kindText, check: checkNotEmpty,
			Meaning: "Directory of the embedded etcd. It is created when needed.",
		},
		{
			Name: "embedded-etcd-listen", Key: "embedded.listen", Group: "Embedded etcd", kind: kindText, check: checkOptionalAddress,
			Meaning: "Address, as host:port, on which the embedded etcd serves etcd's own protocol, without any protection. Default: none.",
		},
		{
			Name: "embedded-etcd-quota", Key: "embedded.quota", Group: "Embedded etcd", kind: kindSize,
			min: int64(16 * MiB), max: int64(64 * GiB),
			Meaning: "Size of the database at which writes are refused. etcd advises against more than 8GiB.",
		},
		{
			Name: "embedded-etcd-compaction-retention", Key: "embedded.compaction-retention", Group: "Embedded etcd", kind: kindDuration,
			min: int64(time.Second), max: int64(720 * time.Hour),
			Meaning: "How much history is kept. After a restart, positions that are older cannot be replayed.",
		},
		{
			Name: "writes", Key: "writes", Group: "Writes", kind: kindBool,
			Meaning: "Whether StoreService is served: Put, Delete and Transact.",
		},
		{
			Name: "max-value-bytes", Key: "max-value-bytes", Group: "Writes", kind: kindSize,
			min: 1, max: int64(largestValue),
			Meaning: "Size of the largest value that is written. etcd takes requests of at most 1.5MiB.",
		},
		{
			Name: "max-transaction-operations", Key: "max-transaction-operations", Group: "Writes", kind: kindNumber,
			min: 1, max: etcdTransactionLimit,
			Meaning: "Number of operations in the largest transaction. etcd takes at most 128.",
		},
	}
}

// resourceSettings are the settings of one resource, which only the file has.
func resourceSettings() []Setting {
	return []Setting{
		{
			Key: "name", kind: kindText, check: checkResourceName,
			Meaning: "Name of the resource in requests: 1 to 63 lower-case letters, digits and dashes, the first not a dash. Required.",
		},
		{
			Key: "prefix", kind: kindText, check: checkPrefix,
			Meaning: "What its keys begin with in etcd; ends with a slash. No prefix may begin with another resource's.",
		},
		{
			Key: "codec", kind: kindText, check: checkCodec,
			Meaning: "What its values are: object (with labels and content type), json (JSON documents as they are) or raw (bytes).",
		},
		{
			Key: "window.max-events", kind: kindNumber, min: 1, max: 10_000_000,
			Meaning: "How many recent changes are kept at most. Who is further behind gets a snapshot.",
		},
		{
			Key: "window.max-bytes", kind: kindSize, min: int64(KiB), max: int64(64 * GiB),
			Meaning: "How much memory the recent changes take at most.",
		},
	}
}
