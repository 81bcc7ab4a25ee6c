package object

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"
)

// Descriptors is a set of protobuf types.
type Descriptors struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// ParseDescriptors parses a serialized google.protobuf.FileDescriptorSet, the output of
// "buf build -o" and "protoc --include_imports -o".
func ParseDescriptors(set []byte) (*Descriptors, error) {
	var parsed descriptorpb.FileDescriptorSet
	if err := proto.Unmarshal(set, &parsed); err != nil || len(parsed.GetFile()) == 0 {
		return nil, errors.New("not a serialized google.protobuf.FileDescriptorSet with files")
	}
	has := map[string]bool{}
	for _, file := range parsed.GetFile() {
		has[file.GetName()] = true
	}
	for _, file := range parsed.GetFile() {
		for _, imported := range file.GetDependency() {
			if !has[imported] {
				return nil, fmt.Errorf("%s imports %s, which is missing: the set must include all imports", file.GetName(), imported)
			}
		}
	}
	files, err := protodesc.NewFiles(&parsed)
	if err != nil {
		return nil, errors.New(plainError(err))
	}
	return &Descriptors{files: files, types: dynamicpb.NewTypes(files)}, nil
}

// Message returns the message type with the given full name, such as acme.v1.Route.
func (d *Descriptors) Message(name string) (*MessageType, error) {
	found, err := d.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("unknown message %q, %s", name, d.messages())
	}
	descriptor, ok := found.(protoreflect.MessageDescriptor)
	if !ok || descriptor.IsMapEntry() {
		return nil, fmt.Errorf("%s is not a message, %s", name, d.messages())
	}
	return &MessageType{message: dynamicpb.NewMessageType(descriptor), types: d.types}, nil
}

// messages lists the known messages for an error.
func (d *Descriptors) messages() string {
	var names []string
	for file := range d.files.RangeFiles {
		for i := range file.Messages().Len() {
			names = append(names, string(file.Messages().Get(i).FullName()))
		}
	}
	if len(names) == 0 {
		return "the set contains no messages"
	}
	slices.Sort(names)
	return "must be one of " + someOf(names)
}

// MessageType is the type of a protobuf message.
type MessageType struct {
	message protoreflect.MessageType
	types   *dynamicpb.Types // for extensions and for messages inside google.protobuf.Any
}

// CheckField returns an error if path does not lead to a string, a number, a boolean or an
// enum.
func (t *MessageType) CheckField(path string) error {
	_, err := t.field(path)
	return err
}

// CheckLabels returns an error if path does not lead to a map<string, string>. It accepts an
// empty path for every message.
func (t *MessageType) CheckLabels(path string) error {
	_, err := t.labels(path)
	return err
}

// someOf lists names for an error, at most 20.
func someOf(names []string) string {
	const most = 20
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + " and more"
	}
	return strings.Join(names, ", ")
}
