package admin

import (
	"net/http"
	"net/http/pprof"
	"strings"

	"google.golang.org/grpc"
	channelz "google.golang.org/grpc/channelz/service"
	"google.golang.org/grpc/reflection"
)

// operators serves what only operators are to see: how the server does, down to its
// goroutines and sockets. All of it passes Config.Operators, and nothing else does.
func operators(cfg Config, channelz, next http.Handler) http.Handler {
	metrics, profiles := cfg.Metrics, http.Handler(nil)
	if cfg.Profiles {
		profiles = pprofs()
	}
	if cfg.Operators != nil {
		channelz = cfg.Operators(channelz)
		if metrics != nil {
			metrics = cfg.Operators(metrics)
		}
		if profiles != nil {
			profiles = cfg.Operators(profiles)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case isGRPC(r):
			channelz.ServeHTTP(w, r)
		case metrics != nil && r.URL.Path == "/metrics":
			metrics.ServeHTTP(w, r)
		case profiles != nil && strings.HasPrefix(r.URL.Path, "/debug/pprof/"):
			profiles.ServeHTTP(w, r)
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// pprofs serves Go's profiles. A profile takes as long as it is asked to, 30 seconds by
// default; this server has no limit for writing an answer.
func pprofs() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return mux
}

// newChannelz returns what says which connections and streams there are in this
// process. It is a server of its own behind this listener, and not a service beside
// those of the protocol: who may read objects need not see everybody's addresses, and
// what checks operators is in one place. It serves nothing but HTTP requests of this
// listener, so it has no limits of its own.
func newChannelz() *grpc.Server {
	s := grpc.NewServer()
	channelz.RegisterChannelzServiceToServer(s)
	reflection.Register(s)
	return s
}

// isGRPC reports whether a request is one of gRPC.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
