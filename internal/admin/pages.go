package admin

import (
	"fmt"
	"io"
	"net/http"
)

// index is what somebody sees who looks what is here.
const index = `fanoutd, HTTP and JSON

  /                                             this list; to a browser the status page
  /openapi.json                                 all of the below in detail (OpenAPI 2)

  GET     /v1/resources                         resources and how they do
  GET     /v1/resources/RESOURCE/objects        list, with ?prefix=PATH and others
  GET     /v1/resources/RESOURCE/objects/KEY    get
  PUT     /v1/resources/RESOURCE/objects/KEY    put, for example {"text": "..."}
  DELETE  /v1/resources/RESOURCE/objects/KEY    delete
  POST    /v1/resources/RESOURCE/transactions   several writes at once
  POST    /v1/resources/RESOURCE/reencrypt      store values anew that are not encrypted as they should be
  GET     /v1/resources/RESOURCE/watch          what is there and every change, as lines of JSON
  GET     /v1/watchers                          who watches
  DELETE  /v1/watchers/ID                       end a watch

  /healthz                                      the process lives
  /readyz                                       the server wants requests
  /metrics                                      how it does, for Prometheus
  /debug/pprof/                                 profiles of Go, unless the setting pprof says no

gRPC (HTTP/2): grpc.channelz.v1.Channelz, and reflection
`

// pages serves what does not come from the server: the index and the description.
// All other paths are for api, unchanged: two slashes in a key are two slashes.
func pages(description []byte, api http.Handler) http.Handler {
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
		_, _ = io.WriteString(w, page) // who has gone does not want it
	})
}

// refuseUnlessGet refuses a request that wants something else than to read.
func refuseUnlessGet(w http.ResponseWriter, r *http.Request) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return false
	}
	w.Header().Set("Allow", "GET, HEAD")
	refuse(w, http.StatusMethodNotAllowed, "%s is for GET", r.URL.Path)
	return true
}
