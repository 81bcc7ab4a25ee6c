package request

import (
	"fmt"
	"strings"
	"time"
	"unicode"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/protobuf/types/known/durationpb"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
	"github.com/fanoutd/fanoutd/internal/selector"
	"github.com/fanoutd/fanoutd/internal/server/apierr"
)

// Violations have to fit into the trailer of a response; see [apierr.MaxEchoBytes].
const (
	maxViolations       = 10
	maxDescriptionBytes = 200
)

// maxContentTypeBytes is the longest media type, with room for parameters.
const maxContentTypeBytes = 512

// Checker collects what is wrong with a request, so that the client learns everything at once,
// or at least the beginning of a long list. The zero value is ready to use.
type Checker struct{ violations apierr.InvalidError }

// Refuse notes what is wrong with a field.
func (c *Checker) Refuse(field, format string, args ...any) {
	if len(c.violations) == maxViolations {
		return
	}
	c.violations = append(c.violations, &errdetails.BadRequest_FieldViolation{
		Field: field, Description: apierr.Clip(fmt.Sprintf(format, args...), maxDescriptionBytes),
	})
}

// Err returns an [apierr.InvalidError] if anything is wrong, and nil otherwise.
func (c *Checker) Err() error {
	if len(c.violations) == 0 {
		return nil
	}
	return c.violations
}

// key checks a key that is written.
func (c *Checker) key(field, key string) object.Key {
	k, err := object.ParseKey(key)
	if err != nil {
		c.Refuse(field, "%v", err)
	}
	return k
}

// existingKey checks a key that is read or deleted. Another program may have written it, so
// it need not follow the rules for keys that are written.
func (c *Checker) existingKey(field, key string) object.Key {
	if _, err := object.ParseKeyScope(key); err != nil {
		c.Refuse(field, "%v", err)
	}
	return object.Key(key)
}

// scope checks a scope that is read.
func (c *Checker) scope(field string, scope *fanoutv1.Scope) object.Scope {
	var s object.Scope
	var err error
	switch kind := scope.GetScope().(type) {
	case *fanoutv1.Scope_Prefix:
		field += ".prefix"
		s, err = object.ParsePrefix(kind.Prefix)
	case *fanoutv1.Scope_Key:
		field += ".key"
		s, err = object.ParseKeyScope(kind.Key)
	}
	if err != nil {
		c.Refuse(field, "%v", err)
	}
	return s
}

// selector checks the selectors of a request.
func (c *Checker) selector(ofLabels, ofFields string, declared []string) selector.Selector {
	l, err := selector.ParseLabels(ofLabels)
	if err != nil {
		c.Refuse("label_selector", "%v", err)
	}
	f, err := selector.ParseFields(ofFields, declared)
	if err != nil {
		c.Refuse("field_selector", "%v", err)
	}
	return selector.And(l, f)
}

func (c *Checker) consistency(field string, rc *fanoutv1.ReadConsistency) object.Consistency {
	switch level := rc.GetLevel().(type) {
	case *fanoutv1.ReadConsistency_Any:
		return object.Consistency{Level: object.AnyRevision}
	case *fanoutv1.ReadConsistency_MinRevision:
		return object.Consistency{Level: object.AtLeast, Revision: c.positiveRevision(field+".min_revision", level.MinRevision)}
	case *fanoutv1.ReadConsistency_ExactRevision:
		return object.Consistency{Level: object.Exactly, Revision: c.positiveRevision(field+".exact_revision", level.ExactRevision)}
	}
	return object.Consistency{}
}

// PageSize checks a page size and lowers it to the most that a page may have. 0 stays 0.
func (c *Checker) PageSize(field string, asked int32, most int) int {
	if asked < 0 {
		c.Refuse(field, "is %d, must not be negative", asked)
	}
	return min(int(asked), most)
}

// duration checks an optional duration. An absent one is 0.
func (c *Checker) duration(field string, d *durationpb.Duration, least, most time.Duration) time.Duration {
	if d == nil {
		return 0
	}
	got := d.AsDuration()
	if err := d.CheckValid(); err != nil {
		c.Refuse(field, "is not a valid duration")
	} else if got < least || got > most {
		c.Refuse(field, "is %v, must be from %v to %v", got, least, most)
	}
	return got
}

func (c *Checker) revision(field string, r int64) object.Revision {
	if r < 0 {
		c.Refuse(field, "is %d, must not be negative", r)
	}
	return object.Revision(r)
}

// positiveRevision checks a revision at which there was something to read.
func (c *Checker) positiveRevision(field string, r int64) object.Revision {
	if r == 0 {
		c.Refuse(field, "is 0, the first revision is 1")
	}
	return c.revision(field, r)
}

func (c *Checker) precondition(field string, r *int64) *object.Revision {
	if r == nil {
		return nil
	}
	want := c.revision(field, *r)
	return &want
}

// contentType checks the media type of a value. Registered names have at most 127 bytes on
// either side of the slash.
func (c *Checker) contentType(field, t string) {
	if n := len(t); n > maxContentTypeBytes {
		c.Refuse(field, "has %d bytes, the limit is %d", n, maxContentTypeBytes)
	}
	if i := strings.IndexFunc(t, unicode.IsControl); i >= 0 {
		c.Refuse(field, "has a control character at byte %d", i)
	}
}

// maxMessageBytes is the longest message of a write.
const maxMessageBytes = 1024

// Message checks the message of a write.
func (c *Checker) Message(field, message string) {
	if n := len(message); n > maxMessageBytes {
		c.Refuse(field, "has %d bytes, the limit is %d", n, maxMessageBytes)
	}
	if i := strings.IndexFunc(message, isControl); i >= 0 {
		c.Refuse(field, "has a control character at byte %d", i)
	}
}

// isControl reports whether a character cannot be a part of a text with several lines.
func isControl(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }

// Order checks the order of a list of watchers, and reports whether it is by lag.
func (c *Checker) Order(field string, o fanoutv1.ListWatchersRequest_Order) bool {
	switch o {
	case fanoutv1.ListWatchersRequest_ORDER_UNSPECIFIED, fanoutv1.ListWatchersRequest_ORDER_ID:
		return false
	case fanoutv1.ListWatchersRequest_ORDER_LAG:
		return true
	}
	c.Refuse(field, "is %d, which is not defined", o)
	return false
}
