package object

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// messagePath leads from a message to a value inside of it. It was checked against
// the type of the message.
type messagePath []messageStep

// messageStep is a field of a message and, inside of a map or list, which of its
// values.
type messageStep struct {
	field protoreflect.FieldDescriptor
	entry protoreflect.MapKey // of a map
	index int                 // of a list
	whole bool                // the map or list itself
}

// field returns the way to the value of a field.
func (t *MessageType) field(path string) (messagePath, error) {
	steps, err := t.walk(path)
	if err != nil {
		return nil, err
	}
	last := steps[len(steps)-1]
	if last.whole || last.value().Message() != nil || last.value().Kind() == protoreflect.BytesKind {
		return nil, fmt.Errorf("%q leads to %s, must lead to a text, a number, a boolean or an enum", path, last)
	}
	return steps, nil
}

// labels returns the way to the labels. Without a path that is metadata.labels
// where the message has it, else nowhere.
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

// walk follows a path through the type of the message. The steps are fields by
// their name in the protocol or in JSON, keys of maps and indexes of lists.
func (t *MessageType) walk(path string) (messagePath, error) {
	if err := CheckPath(path); err != nil {
		return nil, err
	}
	var steps messagePath
	in := t.message.Descriptor()
	names := strings.Split(path, ".")
	for len(names) > 0 {
		if in == nil {
			return nil, fmt.Errorf("%q goes on inside of %s, which has no fields", path, steps[len(steps)-1])
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

// fieldNamed returns the field of that name in the protocol or else in JSON.
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

// enter makes the step one to a value inside of a map or list.
func (s *messageStep) enter(name string) error {
	if s.field.IsList() {
		index, err := strconv.ParseUint(name, 10, 31)
		if err != nil {
			return fmt.Errorf("%q is no index of the list %s", name, s.field.Name())
		}
		s.index = int(index)
		return nil
	}
	key, err := mapKey(s.field.MapKey().Kind(), name)
	if err != nil {
		return fmt.Errorf("%q is no key of the map %s", name, s.field.Name())
	}
	s.entry = key.MapKey()
	return nil
}

// mapKey reads a key of a map from the text that it has in JSON.
func mapKey(kind protoreflect.Kind, text string) (protoreflect.Value, error) {
	switch kind {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text), nil
	case protoreflect.BoolKind:
		if text != "true" && text != "false" {
			return protoreflect.Value{}, fmt.Errorf("%q is no boolean", text)
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
	default: // the kinds of 64 bits without a sign; keys can be of no other
		n, err := strconv.ParseUint(text, 10, 64)
		return protoreflect.ValueOfUint64(n), err
	}
}

// value describes what the step leads to: the values of a map, and otherwise the
// field, whose kind is that of the values of a list.
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

// String says what the step leads to, for errors.
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

// find returns what is at the end of the path in a message. There is nothing where
// a message on the way, an entry of a map or list, or a field that can be absent
// is absent; other fields have a value in every message.
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

// text returns the value at the end of the path of a field as text, empty where it
// is absent. Enums have the name of their value, or its number where the type does
// not know it; numbers are written as in JSON.
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
	default: // a boolean or a whole number
		return fmt.Sprint(v)
	}
}
