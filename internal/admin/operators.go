package admin

import (
	"context"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/fanoutd/fanoutd/internal/access"
)

// route serves the paths of this package, metrics to callers that pass Config.Scraper, and profiles
// and, over gRPC, channelz to callers that pass Config.Operator. Other requests are for the API.
func route(cfg Config, paths map[string]http.Handler, grpc, api http.Handler) http.Handler {
	grpc = guarded(grpc, cfg.Operator)
	for path, served := range paths {
		paths[path] = onlyGet(served)
	}
	if cfg.Metrics != nil {
		paths["/metrics"] = guarded(cfg.Metrics, cfg.Scraper)
	}
	profiles := guarded(pprofs(), cfg.Operator)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch served := paths[r.URL.Path]; {
		case isGRPC(r):
			grpc.ServeHTTP(w, r)
		case served != nil:
			served.ServeHTTP(w, r)
		case cfg.Profiles && strings.HasPrefix(r.URL.Path, "/debug/pprof/"):
			profiles.ServeHTTP(w, r)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// guarded wraps a handler so that each request must pass admit.
func guarded(served http.Handler, admit func(ctx context.Context, r access.HTTPRequest) error) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := admit(asOfGRPC(r), accessOf(r)); err != nil {
			refuseWith(w, status.Convert(err))
			return
		}
		served.ServeHTTP(w, r)
	})
}

// refuseWith refuses a request with a gRPC status.
func refuseWith(w http.ResponseWriter, st *status.Status) {
	if st.Code() == codes.Unauthenticated {
		w.Header().Set("WWW-Authenticate", "Bearer")
	}
	setRetryAfter(w.Header(), st)
	answerRefusal(w, httpStatus(st), st)
}

// accessOf returns what authenticates the caller of a request.
func accessOf(r *http.Request) access.HTTPRequest {
	return access.HTTPRequest{Name: r.Method + " " + r.URL.Path, Certificate: certificateOf(r), Authorization: r.Header.Values("Authorization")}
}

// asOfGRPC returns the request's context with the client's address and user agent where a
// gRPC request has them.
func asOfGRPC(r *http.Request) context.Context {
	ctx := metadata.NewIncomingContext(r.Context(), metadata.Pairs("user-agent", r.UserAgent()))
	return peer.NewContext(ctx, &peer.Peer{Addr: connOf(r).RemoteAddr()})
}

// maxProfileSeconds is the maximum duration of a profile or trace. Recording one slows the
// whole process.
const maxProfileSeconds = 60

// pprofs serves Go's profiles. A CPU profile takes as long as the request asks for, 30
// seconds by default; this server has no timeout for writing an answer.
func pprofs() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /debug/pprof/", pprof.Index)
	mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("POST /debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text := r.URL.Query().Get("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds >= 0 && seconds <= maxProfileSeconds) { // NaN fails both comparisons
				refuseField(w, http.StatusBadRequest, "seconds", "seconds must be a number from 0 to %d", maxProfileSeconds)
				return
			}
		}
		mux.ServeHTTP(w, r)
	})
}

// isGRPC reports whether a request is a gRPC request.
func isGRPC(r *http.Request) bool {
	return r.ProtoMajor == 2 && strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc")
}
