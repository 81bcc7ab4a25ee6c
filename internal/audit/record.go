package audit

import "time"

// Kind is the reason for a record.
type Kind string

// The kinds of records.
const (
	Write  Kind = "write"  // a write, successful or not
	Denied Kind = "denied" // a request without the required right, or whose credentials are missing, invalid or unchecked
	Admin  Kind = "admin"  // an action of an operator
)

// Record describes a request, as the fields of a line of JSON.
type Record struct {
	Time              time.Time `json:"-"` // end of the request; default: now
	Kind              Kind      `json:"msg"`
	Method            string    `json:"method"`                       // for example fanout.v1.StoreService/Put or GET /metrics
	Identity          string    `json:"identity,omitempty"`           // identity of the client; empty: unknown
	Authentication    string    `json:"authentication,omitempty"`     // how the client authenticated
	Peer              string    `json:"peer,omitempty"`               // address of the client
	UserAgent         string    `json:"user_agent,omitempty"`         // reported by the client
	Resource          string    `json:"resource,omitempty"`           // resource in the request
	Keys              []string  `json:"keys,omitempty"`               // keys in the request, or the first of them; never values
	KeyCount          int       `json:"key_count,omitempty"`          // total number of keys; left out if Keys has them all
	Message           string    `json:"message,omitempty"`            // why, in the words of the writer
	SkippedValidation bool      `json:"skipped_validation,omitempty"` // the write asked not to be validated
	Watcher           string    `json:"watcher,omitempty"`            // watch that the operator ended
	Member            string    `json:"member,omitempty"`             // of the cluster, that the operator named
	Revision          int64     `json:"revision,omitempty"`           // revision of the write
	Code              string    `json:"code,omitempty"`               // status code of the request, for example OK
	Reason            string    `json:"reason,omitempty"`             // reason of the refusal
}

// Size returns the approximate size of the record in bytes.
func (r *Record) Size() int {
	const names = 200 // field names and fields of fixed length
	size := names
	for _, text := range []string{r.Method, r.Identity, r.Authentication, r.Peer, r.UserAgent, r.Resource, r.Message, r.Watcher, r.Member, r.Code, r.Reason} {
		size += len(text)
	}
	for _, key := range r.Keys {
		size += len(`"",`) + len(key)
	}
	return size
}
