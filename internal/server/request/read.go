package request

import (
	"slices"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// maxPageSize is the largest number of objects on a page of a list.
const maxPageSize = 10_000

// Target is the part of a resource that a request wants to read. The caller needs a right
// to all of it.
type Target struct {
	Resource string
	Scope    object.Scope // the whole resource if the scope of the request is invalid

	invalid apierr.InvalidError // what is wrong with the scope
}

// ParseTarget parses the resource and the scope of a request. This is all that is needed
// to authorize it. The functions that parse the rest of the request take the target, and
// return what is wrong with its scope, too.
func ParseTarget(req interface {
	GetResource() string
	GetScope() *fanoutv1.Scope
},
) Target {
	var check Checker
	scope := check.scope("scope", req.GetScope())
	return Target{Resource: req.GetResource(), Scope: scope, invalid: check.violations}
}

// Err returns what is wrong with the scope, or nil.
func (t Target) Err() error { return t.checker().Err() }

// checker returns a checker that has noted what is wrong with the scope.
func (t Target) checker() *Checker { return &Checker{violations: slices.Clip(t.invalid)} }

// Get is a request for one object.
type Get struct {
	Key         object.Key
	Consistency object.Consistency
	Projection  object.Projection
}

// ParseGet parses a request for one object. codec is the codec of its value.
func ParseGet(req *fanoutv1.GetRequest, codec object.Codec) (Get, error) {
	var check Checker
	get := Get{
		Key:         check.existingKey("key", req.GetKey()),
		Consistency: check.consistency("consistency", req.GetConsistency()),
		Projection:  Values(req, codec),
	}
	return get, check.Err()
}

// Values returns how a request that asks for single objects sees them.
func Values(req interface{ GetJsonValues() bool }, codec object.Codec) object.Projection {
	if !req.GetJsonValues() {
		return object.Projection{}
	}
	return object.Projection{JSON: object.JSONForm(codec)}
}

// projection returns how a request sees objects. It ignores json_values if there are no values, so
// that more watches share a feed.
func projection(req interface {
	GetOmitValues() bool
	GetJsonValues() bool
}, codec object.Codec, previous bool,
) object.Projection {
	p := object.Projection{OmitValues: req.GetOmitValues()}
	if !p.OmitValues {
		p = Values(req, codec)
	}
	p.Previous = previous
	return p
}

// List is a request for one page of a list.
type List struct {
	Page        Page
	PageSize    int                // in objects; 0: as many as fit
	Consistency object.Consistency // of the first page; later ones have its revision
	CountOnly   bool               // the response is the number of objects
	Projection  object.Projection
}

// ParseList parses a request for a list. fields are those that the resource declares for
// field selectors, and codec is the codec of its values.
func ParseList(target Target, req *fanoutv1.ListRequest, fields []string, codec object.Codec) (List, error) {
	check := target.checker()
	query := Query{
		Resource: target.Resource,
		Scope:    target.Scope,
		Selector: check.selector(req.GetLabelSelector(), req.GetFieldSelector(), fields),
		Start:    object.Key(req.GetStartKey()),
	}
	list := List{
		Page:        FirstPage(query),
		Consistency: check.consistency("consistency", req.GetConsistency()),
		PageSize:    check.PageSize("page_size", req.GetPageSize(), maxPageSize),
		CountOnly:   req.GetCountOnly(),
		Projection:  projection(req, codec, false),
	}
	if list.CountOnly && (list.PageSize != 0 || req.GetPageToken() != "") {
		check.Refuse("count_only", "must not be set together with page_size or page_token")
	}
	if token := req.GetPageToken(); token != "" {
		page, err := ParsePageToken(token, query)
		if err != nil {
			check.Refuse("page_token", "%v", err)
		}
		list.Page = page
		if list.Consistency != (object.Consistency{}) {
			check.Refuse("consistency", "must be left out with a page token, which has the revision of the first page")
		}
	}
	return list, check.Err()
}
