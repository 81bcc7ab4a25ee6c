package registry

import (
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// ListWatchers shows every option of a watch but those that matter only when it begins, or that it
// shows elsewhere. A new option must be in the summary, or here with its reason.
func TestSummaryHasAllOptions(t *testing.T) {
	elsewhere := map[protoreflect.Name]string{
		"scope":       "summaries of different keys are shared, and Summary.Request adds it",
		"after":       "where the watch began",
		"from_now":    "where the watch began",
		"at_revision": "where the watch began",
		"consistency": "what the beginning of the watch waited for",
		"subscriber":  "WatcherStatus has it",
		"reports":     "WatcherStatus has it",
	}
	fields := (*fanoutv1.WatchRequest)(nil).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		req := &fanoutv1.WatchRequest{}
		set(req.ProtoReflect(), f)
		shown := summarize(req).Request(object.Scope{}).ProtoReflect().Has(f)
		if _, left := elsewhere[f.Name()]; shown == left {
			t.Errorf("%s: shown is %v, want %v", f.Name(), shown, !left)
		}
	}
}

// set gives a field a value that is not its default.
func set(m protoreflect.Message, f protoreflect.FieldDescriptor) {
	switch f.Kind() {
	case protoreflect.StringKind:
		m.Set(f, protoreflect.ValueOfString("x"))
	case protoreflect.BoolKind:
		m.Set(f, protoreflect.ValueOfBool(true))
	case protoreflect.EnumKind:
		m.Set(f, protoreflect.ValueOfEnum(1))
	case protoreflect.Int64Kind:
		m.Set(f, protoreflect.ValueOfInt64(1))
	default:
		m.Mutable(f)
	}
}
