package admin

import (
	"fmt"
	"io"
	"net/http"
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
  GET     /v1/resources/RESOURCE/watch          the current objects and every change, as lines of JSON or server-sent events
  GET     /v1/resources/RESOURCE/applied        how many watches have applied a revision, as lines of JSON
  POST    /v1/subscribe                         several watches in one answer, as lines of JSON
  POST    /v1/reports                           report how far a watch is applied
  GET     /v1/watchers                          active watches
  DELETE  /v1/watchers/ID                       end a watch
  GET     /v1/rights?resource=NAME&key=KEY      what you may do with an object
  POST    /v1/space/reclaim                     free unused space of an embedded etcd

  /healthz                                      liveness: the process answers
  /readyz                                       readiness: the server accepts requests
  /metrics                                      metrics for Prometheus
  /debug/pprof/                                 Go profiles, if the setting pprof allows them

gRPC (HTTP/2): reflection, and grpc.channelz.v1.Channelz if the setting channelz is on
`

// withIndex serves the index and the OpenAPI document, and passes other requests to api. It
// does not clean paths: two slashes in a key are two slashes.
func withIndex(description []byte, api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page, contentType := "", ""
		switch r.URL.Path {
		case "/":
			page, contentType = index, "text/plain; charset=utf-8"
		case "/openapi.json":
			page, contentType = string(description), "application/json"
		default:
			api.ServeHTTP(w, r)
			return
		}
		if refuseUnlessGet(w, r) {
			return
		}
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("Content-Length", fmt.Sprint(len(page)))
		_, _ = io.WriteString(w, page) // an error means that the client has gone
	})
}

// refuseUnlessGet refuses a request that is neither GET nor HEAD.
func refuseUnlessGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	w.Header().Set("Allow", "GET, HEAD")
	refuse(w, http.StatusMethodNotAllowed, "%s is for GET", r.URL.Path)
	return true
}
