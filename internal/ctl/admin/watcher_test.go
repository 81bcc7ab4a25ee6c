package admin

import (
	"encoding/json"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Programs read watchers as JSON, which has everything that ListWatchers shows. A new field of a status, or
// a new option of a request, must be in the JSON, or here with its reason.
func TestJSONHasEverythingOfAWatcher(t *testing.T) {
	elsewhere := map[protoreflect.Name]string{
		"after":       "ListWatchers does not show where a watch began",
		"from_now":    "ListWatchers does not show where a watch began",
		"consistency": "ListWatchers does not show what the beginning of the watch waited for",
	}
	status := &fanoutv1.WatcherStatus{}
	fill(status.ProtoReflect(), 2)
	status.Request.Subscriber, status.Request.Reports = nil, false // WatcherStatus has them
	shown := func(s *fanoutv1.WatcherStatus) string {
		b, err := json.Marshal(watcherOf("server", s))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	all := shown(status)
	var check func(path []protoreflect.FieldDescriptor, m protoreflect.Message)
	check = func(path []protoreflect.FieldDescriptor, m protoreflect.Message) {
		for f := range m.Range {
			here := append(path[:len(path):len(path)], f)
			without := proto.CloneOf(status)
			parent := without.ProtoReflect()
			for _, p := range path {
				parent = parent.Mutable(p).Message()
			}
			parent.Clear(f)
			if is, left := shown(without) != all, elsewhere[f.Name()] != ""; is == left {
				t.Errorf("%s: shown is %v, want %v", f.FullName(), is, !left)
			}
			if f.Name() == "request" {
				check(here, m.Get(f).Message())
			}
		}
	}
	check(nil, status.ProtoReflect())
	prefix := proto.CloneOf(status)
	prefix.Request.Scope = &fanoutv1.Scope{Scope: &fanoutv1.Scope_Prefix{Prefix: "x"}}
	if shown(prefix) == all {
		t.Error("a prefix is shown as a key")
	}
}

// fill sets all fields of a message to values that are not their defaults, and those of its messages down to
// a depth. The scope is a key.
func fill(m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		switch {
		case f.Name() == "prefix":
		case f.IsMap():
			m.Mutable(f).Map().Set(protoreflect.ValueOfString("x").MapKey(), protoreflect.ValueOfString("x"))
		case f.IsList() && f.Kind() == protoreflect.StringKind:
			m.Mutable(f).List().Append(protoreflect.ValueOfString("x"))
		case f.IsList(): // the details of an error
		case f.Kind() == protoreflect.MessageKind:
			if inner := m.Mutable(f).Message(); depth > 0 {
				fill(inner, depth-1)
			}
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(2))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(1))
		default:
			m.Set(f, protoreflect.ValueOfInt64(1))
		}
	}
}
