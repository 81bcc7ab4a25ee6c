package config

import (
	"fmt"
	"math"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Resource is one resource. The zero Resource is none: [NewResource] has the
// defaults.
type Resource struct {
	Name          string  `yaml:"name"`
	Prefix        string  `yaml:"prefix"` // default: /fanoutd/NAME/
	Codec         string  `yaml:"codec"`  // default: object
	DescriptorSet string  `yaml:"descriptor-set,omitempty"`
	Message       string  `yaml:"message,omitempty"`
	LabelsPath    string  `yaml:"labels-path,omitempty"`
	Fields        []Field `yaml:"fields,omitempty"`
	Cache         Switch  `yaml:"cache"`
	Encrypt       string  `yaml:"encrypt"` // auto, on or off; default: auto
	Window        Window  `yaml:"window"`
	MaxTombstones int     `yaml:"max-tombstones"`

	// Descriptors is what the file named by DescriptorSet has. Whoever reads the
	// configuration reads that file, too; this package reads none. While it is nil
	// Message and the paths are not compared with the type of the messages.
	Descriptors []byte `yaml:"-"`
}

// Field is a value inside of objects by which they can be selected.
type Field struct {
	Name    string `yaml:"name"`
	Path    string `yaml:"path"`
	Indexed bool   `yaml:"indexed,omitempty"`
}

// Window bounds the window of recent changes of a resource: it has those that are
// younger than Freshness, but no less than MinEvents and no more than MaxEvents and
// MaxSize allow.
type Window struct {
	MinEvents int      `yaml:"min-events"` // default: 1,000, or MaxEvents if that is less
	MaxEvents int      `yaml:"max-events"` // default: 10,000
	MaxSize   Size     `yaml:"max-size"`   // default: 64 MiB
	Freshness Duration `yaml:"freshness"`  // default: 5 minutes
}

// Whether values are encrypted in etcd.
const (
	encryptAuto = "auto" // if there are keys
	encryptOn   = "on"   // there must be keys
	encryptOff  = "off"
)

const minEventsByDefault = 1000

// unset stands for a number that the file does not set and whose default depends on
// others.
const unset = math.MinInt

// NewResource returns a resource of which only the name is configured.
func NewResource(name string) Resource {
	r := unfilled()
	r.Name = name
	r.fill()
	return r
}

// unfilled returns the defaults that do not depend on what is configured.
func unfilled() Resource {
	return Resource{
		Codec: "object",
		Cache: true,

		Encrypt: encryptAuto,
		Window: Window{
			MinEvents: unset,
			MaxEvents: 10_000,
			MaxSize:   64 * MiB,
			Freshness: Duration(5 * time.Minute),
		},
		MaxTombstones: 100_000,
	}
}

// UnmarshalYAML implements [yaml.InterfaceUnmarshaler]: what is not set has its
// default.
func (r *Resource) UnmarshalYAML(decode func(any) error) error {
	type plain Resource // without this method
	*r = unfilled()
	return decode((*plain)(r))
}

// fill sets the defaults that depend on what is configured.
func (r *Resource) fill() {
	if r.Prefix == "" {
		r.Prefix = "/fanoutd/" + r.Name + "/"
	}
	if r.Codec == "json" && r.LabelsPath == "" {
		r.LabelsPath = object.DefaultLabelsPath
	}
	if r.Window.MinEvents == unset {
		r.Window.MinEvents = max(1, min(minEventsByDefault, r.Window.MaxEvents))
	}
}

// Encrypts reports whether the values of a resource are encrypted in etcd.
func (c *Config) Encrypts(r *Resource) bool {
	return c.KeysetFile != "" && r.Encrypt != encryptOff
}

// Schema returns where in the values of the resource labels and fields are. It
// fails where [Config.Problems] would say so with Descriptors set.
func (r *Resource) Schema() (object.Schema, error) {
	s := object.Schema{Labels: r.LabelsPath}
	for _, f := range r.Fields {
		s.Fields = append(s.Fields, object.Field{Name: f.Name, Path: f.Path, Indexed: f.Indexed})
	}
	if r.Codec != codecProtobuf {
		return s, nil
	}
	descriptors, err := object.ParseDescriptors(r.Descriptors)
	if err != nil {
		return s, fmt.Errorf("descriptor set %s: %w", r.DescriptorSet, err)
	}
	if s.Message, err = descriptors.Message(r.Message); err != nil {
		return s, fmt.Errorf("descriptor set %s: %w", r.DescriptorSet, err)
	}
	return s, nil
}

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
