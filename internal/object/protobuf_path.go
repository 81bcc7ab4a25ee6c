package object

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// messagePath is a path from a message to a value inside it, checked against the type of
// the message.
type messagePath []messageStep

// messageStep is one step of a path: a field and, for a map or list, the selected entry.
type messageStep struct {
	field protoreflect.FieldDescriptor
	entry protoreflect.MapKey // key of the map entry
	index int                 // index of the list element
	whole bool                // selects the map or list itself
}

// field returns the path to the value of a field.
func (t *MessageType) field(path string) (messagePath, error) {
	steps, err := t.walk(path)
	if err != nil {
		return nil, err
	}
	last := steps[len(steps)-1]
	if last.whole || last.value().Message() != nil || last.value().Kind() == protoreflect.BytesKind {
		return nil, fmt.Errorf("%q leads to %s, must lead to a string, a number, a boolean or an enum", path, last)
	}
	return steps, nil
}

// labels returns the path to the labels. The default is metadata.labels if the message type
// has it; otherwise the path is empty.
func (t *MessageType) labels(path string) (messagePath, error) {
	optional := path == ""
	if optional {
		path = DefaultLabelsPath
	}
	steps, err := t.walk(path)
	if err == nil && !steps[len(steps)-1].isTextMap() {
		err = fmt.Errorf("%q leads to %s, must lead to a map<string, string>", path, steps[len(steps)-1])
	}
	switch {
	case err == nil:
		return steps, nil
	case optional:
		return nil, nil
	}
	return nil, err
}

// walk resolves a path against the type of the message. A path consists of field names (as
// in the proto file or in JSON), map keys and list indexes.
func (t *MessageType) walk(path string) (messagePath, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	var steps messagePath
	in := t.message.Descriptor()
	names := strings.Split(path, ".")
	for len(names) > 0 {
		if in == nil {
			return nil, fmt.Errorf("%q continues inside %s, which has no fields", path, steps[len(steps)-1])
		}
		step := messageStep{field: fieldNamed(in, names[0])}
		if step.field == nil {
			return nil, fmt.Errorf("%q: %s has no field %q, it has %s", path, in.FullName(), names[0], someOf(fieldNames(in)))
		}
		names = names[1:]
		if step.field.IsMap() || step.field.IsList() {
			if step.whole = len(names) == 0; !step.whole {
				if err := step.enter(names[0]); err != nil {
					return nil, fmt.Errorf("%q: %w", path, err)
				}
				names = names[1:]
			}
		}
		steps = append(steps, step)
		in = step.value().Message()
	}
	return steps, nil
}

// fieldNamed returns the field with the given proto name or JSON name.
func fieldNamed(in protoreflect.MessageDescriptor, name string) protoreflect.FieldDescriptor {
	if f := in.Fields().ByName(protoreflect.Name(name)); f != nil {
		return f
	}
	return in.Fields().ByJSONName(name)
}

func fieldNames(in protoreflect.MessageDescriptor) []string {
	names := make([]string, in.Fields().Len())
	for i := range names {
		names[i] = string(in.Fields().Get(i).Name())
	}
	return names
}

// enter makes the step select an entry of its map or list.
func (s *messageStep) enter(name string) error {
	if s.field.IsList() {
		index, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is not an index of the list %s", name, s.field.Name())
		}
		s.index = int(index)
		return nil
	}
	key, err := mapKey(s.field.MapKey().Kind(), name)
	if err != nil {
		return fmt.Errorf("%q is not a key of the map %s", name, s.field.Name())
	}
	s.entry = key.MapKey()
	return nil
}

// mapKey parses the JSON form of a map key.
func mapKey(kind protoreflect.Kind, text string) (protoreflect.Value, error) {
	switch kind {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return protoreflect.Value{}, fmt.Errorf("%q is not a boolean", text)
		}
		return protoreflect.ValueOfBool(text == "true"), nil
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		n, err := strconv.ParseInt(text, 10, 32)
		return protoreflect.ValueOfInt32(int32(n)), err
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Sfixed64Kind:
		n, err := strconv.ParseInt(text, 10, 64)
		return protoreflect.ValueOfInt64(n), err
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		n, err := strconv.ParseUint(text, 10, 32)
		return protoreflect.ValueOfUint32(uint32(n)), err
	default: // unsigned 64-bit kinds; map keys have no other kinds
		n, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(n), err
	}
}

// value returns the descriptor of the values that the step leads to. For a list it is the
// field itself, whose kind is the kind of the elements.
func (s messageStep) value() protoreflect.FieldDescriptor {
	if s.field.IsMap() {
		return s.field.MapValue()
	}
	return s.field
}

func (s messageStep) isTextMap() bool {
	return s.whole && s.field.IsMap() &&
		s.field.MapKey().Kind() == protoreflect.StringKind && s.field.MapValue().Kind() == protoreflect.StringKind
}

// String describes the result of the step for error messages.
func (s messageStep) String() string {
	name := s.value().Kind().String()
	if m := s.value().Message(); m != nil {
		name = string(m.FullName())
	}
	switch {
	case s.whole && s.field.IsMap():
		return fmt.Sprintf("a map<%s, %s>", s.field.MapKey().Kind(), name)
	case s.whole:
		return "a list of " + name
	}
	return "a value of type " + name
}

// find returns the value at the end of the path. It returns false if a message on the path,
// a map or list entry, or a field with presence is missing. Fields without presence always
// have a value.
func (p messagePath) find(m protoreflect.Message) (protoreflect.Value, bool) {
	var found protoreflect.Value
	for i, s := range p {
		if i > 0 {
			m = found.Message()
		}
		if s.field.HasPresence() && !m.Has(s.field) {
			return found, false
		}
		found = m.Get(s.field)
		switch {
		case s.whole:
		case s.field.IsMap():
			if found = found.Map().Get(s.entry); !found.IsValid() {
				return found, false
			}
		case s.field.IsList():
			if s.index >= found.List().Len() {
				return found, false
			}
			found = found.List().Get(s.index)
		}
	}
	return found, true
}

// text returns the value at the end of the path as text, or "" if it is missing. Numbers
// are formatted as in JSON. Enum values are formatted as their name, or as their number if
// the type does not define the value.
func (p messagePath) text(m protoreflect.Message) string {
	found, ok := p.find(m)
	if !ok {
		return ""
	}
	switch v := found.Interface().(type) {
	case string:
		return validText(v)
	case protoreflect.EnumNumber:
		if known := p[len(p)-1].value().Enum().Values().ByNumber(v); known != nil {
			return string(known.Name())
		}
		return strconv.Itoa(int(v))
	case float32, float64:
		if number, err := json.Marshal(v); err == nil {
			return string(number)
		}
		return strings.Replace(strings.TrimPrefix(fmt.Sprint(v), "+"), "Inf", "Infinity", 1)
	default: // boolean or integer
		return fmt.Sprint(v)
	}
}
