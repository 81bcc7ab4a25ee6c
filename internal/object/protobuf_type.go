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

// Descriptors are the protobuf types that values can be of.
type Descriptors struct {
	files *protoregistry.Files
	types *dynamicpb.Types
}

// ParseDescriptors reads a serialized google.protobuf.FileDescriptorSet, as
// "buf build -o" and "protoc --include_imports -o" write it. An error says what is
// wrong with it.
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
				return nil, fmt.Errorf("%s imports %s, which is missing: the set must be made with all imports", file.GetName(), imported)
			}
		}
	}
	files, err := protodesc.NewFiles(&parsed)
	if err != nil {
		return nil, errors.New(plainError(err))
	}
	return &Descriptors{files: files, types: dynamicpb.NewTypes(files)}, nil
}

// Message returns the message of the given full name, such as acme.v1.Route.
func (d *Descriptors) Message(name string) (*MessageType, error) {
	found, err := d.files.FindDescriptorByName(protoreflect.FullName(name))
	if err != nil {
		return nil, fmt.Errorf("there is no message %q, %s", name, d.messages())
	}
	descriptor, ok := found.(protoreflect.MessageDescriptor)
	if !ok || descriptor.IsMapEntry() {
		return nil, fmt.Errorf("%s is not a message, %s", name, d.messages())
	}
	return &MessageType{message: dynamicpb.NewMessageType(descriptor), types: d.types}, nil
}

// messages says which messages there are, for an error.
func (d *Descriptors) messages() string {
	var names []string
	for file := range d.files.RangeFiles {
		for i := range file.Messages().Len() {
			names = append(names, string(file.Messages().Get(i).FullName()))
		}
	}
	slices.Sort(names)
	return "there are " + someOf(names)
}

// MessageType is the type of a protobuf message.
type MessageType struct {
	message protoreflect.MessageType
	types   *dynamicpb.Types // for extensions, and for messages inside of google.protobuf.Any
}

// CheckField returns an error that says why path cannot be that of a field's
// value: it must lead to a text, a number, a boolean or an enum.
func (t *MessageType) CheckField(path string) error {
	_, err := t.field(path)
	return err
}

// CheckLabels returns an error that says why path cannot be that of the labels:
// it must lead to a map<string, string>. No path is right for every message.
func (t *MessageType) CheckLabels(path string) error {
	_, err := t.labels(path)
	return err
}

// someOf lists names for an error, as many as somebody reads.
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
