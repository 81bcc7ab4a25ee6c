package rules

// serverImports is the part of the table of TestImportsGoOneWay for the packages of the
// server. Each package may import those that are listed above it, never one below.
var serverImports = map[string][]string{
	"internal/server/apierr":    {"internal/access", "internal/cacher", "internal/cluster/manage", "internal/dispatch", "internal/object"},
	"internal/server/grpcmsg":   {"internal/dispatch", "internal/wire"},
	"internal/server/frames":    {},
	"internal/server/transport": {"internal/access", "internal/backoff", "internal/server/apierr", "internal/server/frames"},
	"internal/server/quota": {
		"internal/access", "internal/dispatch", "internal/object", "internal/server/apierr", "internal/server/transport",
	},
	"internal/server/request": {
		"internal/dispatch", "internal/history", "internal/object", "internal/selector", "internal/server/apierr", "gen",
	},
	"internal/server/backend": {
		"internal/cacher", "internal/direct", "internal/dispatch", "internal/history", "internal/object", "internal/sendqueue",
		"internal/server/apierr", "internal/server/request", "internal/validation", "gen",
	},
	"internal/server/rpc": {
		"internal/access", "internal/audit", "internal/object", "internal/server/apierr", "internal/server/frames",
		"internal/server/quota", "internal/server/request", "internal/server/transport", "gen", "internal/work",
	},
	"internal/server/registry": {
		"internal/access", "internal/dispatch", "internal/object", "internal/sendqueue", "internal/server/apierr",
		"internal/server/backend", "internal/server/frames", "internal/server/grpcmsg", "internal/server/quota",
		"internal/server/request", "internal/server/rpc", "internal/server/transport", "gen",
	},
	"internal/server/watch": {
		"internal/access", "internal/dispatch", "internal/object", "internal/server/apierr", "internal/server/backend",
		"internal/server/grpcmsg", "internal/server/quota", "internal/server/registry", "internal/server/rpc",
		"internal/wire", "gen", "internal/work",
	},
	"internal/server/subscribe": {
		"internal/access", "internal/dispatch", "internal/object", "internal/server/apierr", "internal/server/backend",
		"internal/server/grpcmsg", "internal/server/quota", "internal/server/registry", "internal/server/request",
		"internal/server/rpc", "internal/wire", "gen", "internal/work",
	},
	"internal/server/cluster": {"internal/access", "internal/cluster/manage", "internal/object", "internal/server/apierr", "internal/server/rpc", "gen"},
	"internal/server": {
		"internal/access", "internal/audit", "internal/cacher", "internal/cluster/manage", "internal/direct", "internal/dispatch", "internal/history", "internal/sendqueue",
		"internal/lag", "internal/object", "internal/selector", "internal/server", "internal/validation", "internal/version", "internal/wire", "gen", "internal/work",
	},
}
