package request

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/history"
	"github.com/fanoutd/fanoutd/internal/object"
)

// The sizes of a page of a history, in writes.
const (
	historyPage    = 100
	maxHistoryPage = 1000
)

// clockTolerance is how far a time may be ahead of the clock of the server: that of a write is by the clock of the server
// that made it, and "now" by that of the client.
const clockTolerance = time.Minute

// History is a request for a page of a history.
type History struct {
	Query      history.Query
	Time       *time.Time // the page begins at this time; nil: where the query says
	Projection object.Projection
}

// ParseHistory parses a request for a page of a history. codec is the codec of the values.
func ParseHistory(target Target, req *fanoutv1.HistoryRequest, codec object.Codec) (History, error) {
	check := target.checker()
	h := History{
		Query: history.Query{
			Scope: target.Scope, Values: req.GetValues(),
			Limit: cmp.Or(check.PageSize("page_size", req.GetPageSize(), maxHistoryPage), historyPage),
		},
		Projection: Values(req, codec),
	}
	switch begin := req.GetBegin().(type) {
	case *fanoutv1.HistoryRequest_Revision:
		h.Query.From.Upto = check.positiveRevision("revision", begin.Revision)
	case *fanoutv1.HistoryRequest_Time:
		h.Time = new(begin.Time.AsTime())
		if err := begin.Time.CheckValid(); err != nil {
			check.Refuse("time", "is not a valid time")
		} else if now := time.Now(); h.Time.Sub(now) > clockTolerance {
			check.Refuse("time", "is %s, in the future: it is %s by the clock of the server", h.Time.Format(time.RFC3339), now.UTC().Format(time.RFC3339))
		}
	}
	if token := req.GetPageToken(); token != "" {
		place, err := parseHistoryToken(token, target)
		if err != nil {
			check.Refuse("page_token", "%v", err)
		}
		h.Query.From, h.Time = place, nil
	}
	return h, check.Err()
}

// historyToken is the content of a page token of a history. It contains nothing secret.
type historyToken struct {
	Resource string          `json:"r"`
	Scope    string          `json:"s"`
	Upto     object.Revision `json:"u"`
	After    object.Key      `json:"a,omitempty"`
}

// HistoryToken returns the token of the page that begins at a place.
func HistoryToken(target Target, p history.Place) string {
	b, err := json.Marshal(historyToken{target.Resource, target.Scope.String(), p.Upto, p.After})
	if err != nil {
		panic(err) // strings and numbers always marshal
	}
	return base64.RawURLEncoding.EncodeToString(b)
}

func parseHistoryToken(token string, target Target) (history.Place, error) {
	b, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return history.Place{}, errNoPageToken
	}
	var t historyToken
	if err := json.Unmarshal(b, &t); err != nil || t.Upto < 1 {
		return history.Place{}, errNoPageToken
	}
	if t.Resource != target.Resource || t.Scope != target.Scope.String() {
		return history.Place{}, errors.New("belongs to a request with another resource or scope")
	}
	return history.Place{Upto: t.Upto, After: t.After}, nil
}

// ParsePurgeHistory returns the key whose history a request removes.
func ParsePurgeHistory(req *fanoutv1.PurgeHistoryRequest) (object.Key, error) {
	var check Checker
	key := check.existingKey("key", req.GetKey())
	return key, check.Err()
}
