package config

import (
	"fmt"

	"github.com/fanoutd/fanoutd/internal/object"
)

// The codecs that settings depend on.
const (
	codecJSON     = "json"
	codecProtobuf = "protobuf"
	codecRaw      = "raw"
)

// maxFields bounds what each change of a resource costs: every field is looked up in
// every value. A convention; it is far beyond what somebody selects by.
const maxFields = 64

// schema checks where labels and fields are in the values of a resource.
func (v *validator) schema(path string, r *Resource) {
	message := v.message(path, r)
	switch {
	case r.LabelsPath == "":
	case r.Codec == codecRaw:
		v.add(path+"labels-path", "is set, but the codec is raw, whose values have no labels")
	case r.Codec != codecJSON && r.Codec != codecProtobuf:
		v.add(path+"labels-path", "is set, but the codec is neither json nor protobuf")
	case message != nil:
		v.check(path+"labels-path", message.CheckLabels(r.LabelsPath))
	default:
		v.check(path+"labels-path", object.CheckPath(r.LabelsPath))
	}
	switch {
	case len(r.Fields) > 0 && r.Codec == codecRaw:
		v.add(path+"fields", "is set, but the codec is raw, whose values have no fields")
		return
	case len(r.Fields) > maxFields:
		v.add(path+"fields", "has %d fields, the limit is %d", len(r.Fields), maxFields)
		return
	}
	names := map[string]int{}
	for i, f := range r.Fields {
		field := fmt.Sprintf("%sfields[%d]", path, i)
		if j, ok := names[f.Name]; ok {
			v.add(field+".name", "%q is the name of fields[%d] too", f.Name, j)
		} else {
			names[f.Name] = i
			v.check(field+".name", checkFieldName(f.Name))
		}
		switch {
		case f.Path == "":
			v.add(field+".path", "a field must have a path")
		case message != nil:
			v.check(field+".path", message.CheckField(f.Path))
		default:
			v.check(field+".path", object.CheckPath(f.Path))
		}
	}
}

// message checks the type of messages and returns it where it is known.
func (v *validator) message(path string, r *Resource) *object.MessageType {
	settings := []struct{ key, value string }{{"descriptor-set", r.DescriptorSet}, {"message", r.Message}}
	if r.Codec != codecProtobuf {
		for _, s := range settings {
			if s.value != "" {
				v.add(path+s.key, "is set, but the codec is not protobuf")
			}
		}
		return nil
	}
	for _, s := range settings {
		if s.value == "" {
			v.add(path+s.key, "must be set for the codec protobuf")
		}
	}
	if r.DescriptorSet == "" || r.Descriptors == nil {
		return nil
	}
	descriptors, err := object.ParseDescriptors(r.Descriptors)
	if err != nil {
		v.add(path+"descriptor-set", "%s: %v", r.DescriptorSet, err)
		return nil
	}
	if r.Message == "" {
		return nil
	}
	message, err := descriptors.Message(r.Message)
	v.check(path+"message", err)
	return message
}
