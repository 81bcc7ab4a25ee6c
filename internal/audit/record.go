package audit

import (
	"log/slog"
	"time"
)

// Kind says why something is recorded.
type Kind string

// The kinds.
const (
	Write  Kind = "write"  // somebody has written, or has tried to
	Denied Kind = "denied" // somebody may not do what they wanted, or has not shown who they are, or nobody has looked
	Admin  Kind = "admin"  // somebody has acted as an operator
)

// Record is what is written about a request. What is empty is left out.
type Record struct {
	Time           time.Time // when the request was over; default: now
	Kind           Kind
	Method         string   // as in fanout.v1.StoreService/Put, or GET /metrics
	Identity       string   // who has asked; empty: nobody knows
	Authentication string   // how that was shown
	Peer           string   // the address
	UserAgent      string   // what the client says it is
	Resource       string   // that was named
	Keys           []string // that were named, or the first of them; never values
	KeyCount       int      // how many there are
	Watcher        string   // that was to be ended
	Revision       int64    // of the write
	Code           string   // with which the request has ended, as in OK
	Reason         string   // of the refusal
}

// Size returns about how many bytes the record takes.
func (r *Record) Size() int {
	const names = 200 // of what there is, and what has the same length always
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
