package admin

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"

	"google.golang.org/grpc/health/grpc_health_v1"
)

// index lists the paths.
const index = `fanoutd, HTTP and JSON

  /                                             this list; to a browser the status page
  /openapi.json                                 all of the below in detail (OpenAPI 2)

  GET     /v1/resources                         resources and their status
  GET     /v1/resources/RESOURCE/objects        list, with ?prefix=PATH and others
  GET     /v1/resources/RESOURCE/objects/KEY    get; with ?raw the value alone
  PUT     /v1/resources/RESOURCE/objects/KEY    put: the body is the value, with its Content-Type
  DELETE  /v1/resources/RESOURCE/objects/KEY    delete
  POST    /v1/resources/RESOURCE/transactions   several writes at once
  POST    /v1/resources/RESOURCE/reencrypt      encrypt stored values with the current key
  GET     /v1/resources/RESOURCE/history        who wrote what, when and why, newest first, with ?key=KEY or ?prefix=PATH
  POST    /v1/resources/RESOURCE/history/purge  remove the history of a key
  GET     /v1/resources/RESOURCE/watch          the current objects and every change, as lines of JSON or server-sent events
  GET     /v1/resources/RESOURCE/applied        how many watches have applied a revision, as lines of JSON
  POST    /v1/subscribe                         several watches in one answer, as lines of JSON
  POST    /v1/reports                           report how far a watch is applied
  GET     /v1/watchers                          active watches
  DELETE  /v1/watchers/ID                       end a watch
  GET     /v1/rights?resource=NAME&key=KEY      what you may do with an object
  GET     /v1/cluster                           the members of the cluster of servers
  POST    /v1/space/reclaim                     free unused space of an embedded etcd

  /healthz                                      liveness: the process answers
  /readyz                                       readiness: the server accepts requests
  /metrics                                      metrics for Prometheus
  /debug/pprof/                                 Go profiles, if the setting pprof allows them

gRPC (HTTP/2): reflection, and grpc.channelz.v1.Channelz if the setting channelz is on
`

// paths serves what is neither in the protocol nor for operators only. The paths are exact: nothing
// cleans them, because two slashes in a key are two slashes.
func (c Config) paths() (map[string]http.Handler, error) {
	description, err := describe(openAPI)
	if err != nil {
		return nil, fmt.Errorf("read the OpenAPI document: %w", err)
	}
	paths, err := readPage(pageFiles, c.Servers)
	if err != nil {
		return nil, fmt.Errorf("read the status page: %w", err)
	}
	paths["/"] = forBrowsers(paths["/"], text("text/plain; charset=utf-8", index))
	paths["/openapi.json"] = text("application/json", string(description))
	// A process that answers is alive. An unreachable etcd is no reason for a restart.
	paths["/healthz"] = probe(func(context.Context) string { return "" })
	paths["/readyz"] = probe(c.readiness(grpc_health_v1.NewHealthClient(c.Conn)))
	paths[rightsPath] = http.HandlerFunc(c.rights)
	return paths, nil
}

func text(contentType, content string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = io.WriteString(w, content) // an error means that the client has gone
	})
}

// onlyGet refuses requests that are neither GET nor HEAD.
func onlyGet(served http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "%s is for GET", r.URL.Path)
			return
		}
		served.ServeHTTP(w, r)
	})
}
