package admin

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"google.golang.org/grpc/status"
)

// rightsPath is the path of the caller's rights. The status page reads it, to offer nothing that the
// server would refuse.
const rightsPath = "/v1/rights"

// rights answers a request for rightsPath.
func (c Config) rights(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	resource, key := query.Get("resource"), query.Get("key")
	for name, values := range query {
		if (name != "resource" && name != "key") || len(values) > 1 || !utf8.ValidString(values[0]) {
			refuseField(w, http.StatusBadRequest, name, "only one resource and one key are allowed here, in UTF-8")
			return
		}
	}
	if resource == "" {
		refuseField(w, http.StatusBadRequest, "resource", "the resource is missing")
		return
	}
	verbs, err := c.Rights(asOfGRPC(r), accessOf(r), resource, key)
	if err != nil {
		refuseWith(w, status.Convert(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(struct { // an error means that the client has gone
		Rights []string `json:"rights"`
	}{append([]string{}, verbs...)})
}
