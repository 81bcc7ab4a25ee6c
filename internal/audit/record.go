package audit

import (
	"log/slog"
	"time"
)

// Kind is the reason for a record.
type Kind string

// The kinds of records.
const (
	Write  Kind = "write"  // a write, successful or not
	Denied Kind = "denied" // a request without the required right, or whose credentials are missing, invalid or unchecked
	Admin  Kind = "admin"  // an action of an operator
)

// Record describes a request. Empty fields are omitted from the log.
type Record struct {
	Time           time.Time // end of the request; default: now
	Kind           Kind
	Method         string   // for example fanout.v1.StoreService/Put or GET /metrics
	Identity       string   // identity of the client; empty: unknown
	Authentication string   // how the client authenticated
	Peer           string   // address of the client
	UserAgent      string   // reported by the client
	Resource       string   // resource in the request
	Keys           []string // keys in the request, or the first of them; never values
	KeyCount       int      // total number of keys
	Watcher        string   // watch that the operator ended
	Revision       int64    // revision of the write
	Code           string   // status code of the request, for example OK
	Reason         string   // reason of the refusal
}

// Size returns the approximate size of the record in bytes.
func (r *Record) Size() int {
	const names = 200 // field names and fields of fixed length
	size := names
	for _, text := range []string{r.Method, r.Identity, r.Authentication, r.Peer, r.UserAgent, r.Resource, r.Watcher, r.Code, r.Reason} {
		size += len(text)
	}
	for _, key := range r.Keys {
		size += len(`"",`) + len(key)
	}
	return size
}

func (r *Record) attributes() []slog.Attr {
	attrs := []slog.Attr{slog.String("method", r.Method)}
	text := func(name, value string) {
		if value != "" {
			attrs = append(attrs, slog.String(name, value))
		}
	}
	text("identity", r.Identity)
	text("authentication", r.Authentication)
	text("peer", r.Peer)
	text("user_agent", r.UserAgent)
	text("resource", r.Resource)
	if len(r.Keys) > 0 {
		attrs = append(attrs, slog.Any("keys", r.Keys))
	}
	if r.KeyCount > len(r.Keys) {
		attrs = append(attrs, slog.Int("key_count", r.KeyCount))
	}
	text("watcher", r.Watcher)
	if r.Revision > 0 {
		attrs = append(attrs, slog.Int64("revision", r.Revision))
	}
	text("code", r.Code)
	text("reason", r.Reason)
	return attrs
}
