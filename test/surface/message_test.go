package surface

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// words are the building blocks of strings and bytes: valid names, nearly valid ones, and
// difficult ones. Random bytes come between them.
var words = []string{
	"", "config", "plain", "documents", "nothing", "a", "a/b", "a/b/c", "a/", "/a", "a//b", ".", "..", "\x00", "%2F",
	"env=prod", "env in (prod,dev)", "!env", "env notin (x)", "env=", "region=eu", "region!=eu,host=h", "key=a/b", "=",
	"(((", "a=b,c=d,e in (f,g)", `{"region": "eu"}`, `{"a": [1, 2, {"b": null}]}`, "[1", "application/json", "text/plain",
	strings.Repeat("k", 1025), strings.Repeat("a/", 500) + "a", strings.Repeat("a=b,", 300) + "a=b", "\u202e\U0010ffff", "ä/ö",
}

// maker generates random messages.
type maker struct {
	*rand.Rand
	// seen has texts from the server's answers: epochs, page tokens, ids.
	seen []string

	received int // messages of watches of Subscribe streams
}

// learn adds the texts of an answer to seen.
func (m *maker) learn(msg protoreflect.Message) {
	msg.Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		switch {
		case f.IsMap() || f.IsList():
		case f.Kind() == protoreflect.MessageKind:
			m.learn(v.Message())
		case f.Kind() == protoreflect.StringKind && len(v.String()) < 512:
			m.seen = append(m.seen[max(0, len(m.seen)-100):], v.String())
		}
		return true
	})
}

// fill sets random fields of a message, up to a nesting depth.
func (m *maker) fill(msg protoreflect.Message, depth int) {
	fields := msg.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if m.IntN(2) == 0 {
			continue
		}
		switch {
		case f.IsMap():
			entries := msg.Mutable(f).Map()
			for range m.IntN(4) {
				entries.Set(m.value(f.MapKey(), depth).MapKey(), m.value(f.MapValue(), depth))
			}
		case f.IsList():
			list := msg.Mutable(f).List()
			for range m.IntN(5) {
				if f.Kind() == protoreflect.MessageKind {
					e := list.NewElement()
					if depth > 0 {
						m.fill(e.Message(), depth-1)
					}
					list.Append(e)
				} else {
					list.Append(m.value(f, depth))
				}
			}
		case f.Kind() == protoreflect.MessageKind:
			if depth > 0 {
				m.fill(msg.Mutable(f).Message(), depth-1)
			}
		default:
			msg.Set(f, m.value(f, depth))
		}
	}
	// Most requests name an existing resource: the others are refused early.
	if f := fields.ByName("resource"); f != nil && m.IntN(8) != 0 {
		msg.Set(f, protoreflect.ValueOfString([]string{"config", "plain", "documents"}[m.IntN(3)]))
	}
	// Few ids, so that many are in use.
	if f := fields.ByName("watch_id"); f != nil && f.Kind() == protoreflect.Uint64Kind && m.IntN(4) != 0 {
		msg.Set(f, protoreflect.ValueOfUint64(m.Uint64N(4)))
	}
	if m.IntN(20) == 0 { // a field of a newer protocol
		msg.SetUnknown(protoreflect.RawFields{0xfa, 0x7f, 0x03, 'n', 'e', 'w'})
	}
}

func (m *maker) value(f protoreflect.FieldDescriptor, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(m.IntN(2) == 0)
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(m.IntN(f.Enum().Values().Len()+2) - 1))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(m.number()))
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		return protoreflect.ValueOfInt64(m.number())
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(m.number()))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(m.number()))
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(m.text())
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(m.text()))
	case protoreflect.MessageKind:
		return protoreflect.ValueOfString("") // only in maps; the protocol has none
	}
	panic(fmt.Sprintf("fields of the kind %s are new to this test", f.Kind()))
}

func (m *maker) number() int64 {
	switch m.IntN(5) {
	case 0:
		return 0
	case 1:
		return []int64{-1, math.MaxInt64, math.MinInt64, math.MaxInt32, math.MinInt32}[m.IntN(5)]
	case 2:
		return m.Int64()
	}
	return m.Int64N(200)
}

func (m *maker) text() string {
	switch m.IntN(4) {
	case 0:
		if len(m.seen) > 0 {
			return m.seen[m.IntN(len(m.seen))]
		}
	case 1:
		var b strings.Builder
		for range m.IntN(30) {
			b.WriteRune(rune(m.IntN(0x3000)))
		}
		return strings.ToValidUTF8(b.String(), "")
	}
	return words[m.IntN(len(words))]
}

// message returns a random message of a type.
func (m *maker) message(t protoreflect.MessageType) proto.Message {
	msg := t.New()
	m.fill(msg, 5)
	return msg.Interface()
}

// further returns a random request of a stream of requests, mostly one that may follow others. Half
// of the watches that it starts are valid.
func (m *maker) further(t protoreflect.MessageType) proto.Message {
	for {
		msg := m.message(t)
		r, ok := msg.(*fanoutv1.SubscribeRequest)
		switch {
		case !ok || r.GetStop() != nil || r.GetReport() != nil || m.IntN(40) == 0:
			return msg
		case r.GetStart() != nil:
			if m.IntN(2) == 0 {
				r.GetStart().Request = &fanoutv1.WatchRequest{Resource: []string{"config", "plain", "documents"}[m.IntN(3)]}
			}
			return msg
		}
	}
}

func mustMarshal(m proto.Message) []byte {
	b, err := proto.Marshal(m)
	if err != nil {
		panic(err) // texts are UTF-8
	}
	return b
}
