package config

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/fanoutd/fanoutd/internal/object"
)

// Resource is the configuration of a resource. The zero Resource is not valid; start from
// [NewResource].
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
	Log           Log     `yaml:"log"`
	MaxTombstones int     `yaml:"max-tombstones"`

	ValidationFile string `yaml:"validation-file,omitempty"` // empty: writes are not checked

	// History limits the history of the writes. Nil: there is none.
	History *History `yaml:"history,omitempty"`

	// Descriptors is the content of the file DescriptorSet. The reader of the
	// configuration sets it, because this package reads no files. While it is nil,
	// Message and the paths are not compared with the message type.
	Descriptors []byte `yaml:"-"`
}

// Field is a field of the values of a resource that field selectors can use.
type Field struct {
	Name    string `yaml:"name"`
	Path    string `yaml:"path"`
	Indexed bool   `yaml:"indexed,omitempty"`
}

// Window limits the window of recent changes of a resource. The window covers Freshness, but
// contains at least MinEvents changes, and at most MaxEvents changes and MaxSize bytes.
type Window struct {
	MinEvents int      `yaml:"min-events"` // default: 1,000, or MaxEvents if that is less
	MaxEvents int      `yaml:"max-events"` // default: 10,000
	MaxSize   Size     `yaml:"max-size"`   // default: 64 MiB
	Freshness Duration `yaml:"freshness"`  // default: 5 minutes
}

// Log limits the encoded events that the watches of a resource share. Watches read older
// events from the window.
type Log struct {
	MaxSize   Size     `yaml:"max-size"`  // default: 64 MiB
	Freshness Duration `yaml:"freshness"` // default: 1 minute
}

// The values of encrypt.
const (
	encryptAuto = "auto" // encrypt if there is a keyset
	encryptOn   = "on"   // require a keyset
	encryptOff  = "off"
)

const minEventsByDefault = 1000

// unset marks a number that the file does not set and whose default depends on other
// settings.
const unset = math.MinInt

// NewResource returns a resource with a name and otherwise the defaults.
func NewResource(name string) Resource {
	r := unfilled()
	r.Name = name
	r.fill()
	return r
}

// unfilled returns the defaults that do not depend on other settings.
func unfilled() Resource {
	return Resource{
		Codec: object.DefaultCodec,
		Cache: true,

		Encrypt: encryptAuto,
		Window: Window{
			MinEvents: unset,
			MaxEvents: 10_000,
			MaxSize:   64 * MiB,
			Freshness: Duration(5 * time.Minute),
		},
		Log:           Log{MaxSize: 64 * MiB, Freshness: Duration(time.Minute)},
		MaxTombstones: 100_000,
	}
}

// UnmarshalYAML is called by the YAML library. It starts from the defaults.
func (r *Resource) UnmarshalYAML(decode func(any) error) error {
	type plain Resource // does not have this method
	*r = unfilled()
	defer r.fill()
	return decode((*plain)(r))
}

// fill sets the defaults that depend on other settings.
func (r *Resource) fill() {
	if r.Prefix == "" {
		r.Prefix = "/fanoutd/" + r.Name + "/"
	}
	if r.LabelsPath == "" {
		r.LabelsPath = object.SettingsOfCodec(r.Codec).DefaultLabelsPath
	}
	if r.Window.MinEvents == unset {
		r.Window.MinEvents = max(1, min(minEventsByDefault, r.Window.MaxEvents))
	}
}

// Encrypts reports whether the values of a resource are encrypted in etcd.
func (c *Config) Encrypts(r *Resource) bool {
	return c.KeysetFile != "" && r.Encrypt != encryptOff
}

// HasMessages reports whether the codec needs the type of messages.
func (r *Resource) HasMessages() bool { return object.SettingsOfCodec(r.Codec).Message }

// Schema returns the location of labels and fields in the values. If the codec needs the type of
// messages, Descriptors must be set.
func (r *Resource) Schema() (object.Schema, error) {
	s := object.Schema{Labels: r.LabelsPath}
	for _, f := range r.Fields {
		s.Fields = append(s.Fields, object.Field{Name: f.Name, Path: f.Path, Indexed: f.Indexed})
	}
	if !r.HasMessages() {
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

// maxFields limits the cost of a change, because every field is looked up in every value. It
// is arbitrary, and well above normal use.
const maxFields = 64

// schema validates the paths of labels and fields.
func (v *validator) schema(path string, r *Resource) {
	may, message := object.SettingsOfCodec(r.Codec), v.message(path, r)
	switch {
	case r.LabelsPath == "":
	case !may.Fields:
		v.add(path+"labels-path", "cannot be set for the codec %s, whose values have no labels", r.Codec)
	case !may.LabelsPath:
		v.add(path+"labels-path", "can be set only for %s", codecsWith(func(s object.CodecSettings) bool { return s.LabelsPath }))
	case message != nil:
		v.check(path+"labels-path", message.CheckLabels(r.LabelsPath))
	default:
		v.check(path+"labels-path", object.CheckPath(r.LabelsPath))
	}
	switch {
	case len(r.Fields) > 0 && !may.Fields:
		v.add(path+"fields", "cannot be set for the codec %s, whose values have no fields", r.Codec)
		return
	case len(r.Fields) > maxFields:
		v.add(path+"fields", "has %d fields, the limit is %d", len(r.Fields), maxFields)
		return
	}
	names := map[string]int{}
	for i, f := range r.Fields {
		field := fmt.Sprintf("%sfields[%d]", path, i)
		if j, ok := names[f.Name]; ok {
			v.add(field+".name", "duplicate name %q, also used by fields[%d]", f.Name, j)
		} else {
			names[f.Name] = i
			v.check(field+".name", checkFieldName(f.Name))
		}
		switch {
		case f.Path == "":
			v.add(field+".path", "missing path")
		case message != nil:
			v.check(field+".path", message.CheckField(f.Path))
		default:
			v.check(field+".path", object.CheckPath(f.Path))
		}
	}
}

// codecsWith names the codecs whose resources may have a setting.
func codecsWith(setting func(object.CodecSettings) bool) string {
	var names []string
	for _, name := range object.CodecNames() {
		if setting(object.SettingsOfCodec(name)) {
			names = append(names, name)
		}
	}
	if len(names) == 1 {
		return "the codec " + names[0]
	}
	return "the codecs " + strings.Join(names, " and ")
}

// message validates the message type and returns it, or nil if it is not known.
func (v *validator) message(path string, r *Resource) *object.MessageType {
	settings := []setting{{"descriptor-set", r.DescriptorSet}, {"message", r.Message}}
	if !r.HasMessages() {
		for _, s := range settings {
			if s.value != "" {
				v.add(path+s.key, "can be set only for %s", codecsWith(func(s object.CodecSettings) bool { return s.Message }))
			}
		}
		return nil
	}
	for _, s := range settings {
		if s.value == "" {
			v.add(path+s.key, "must be set for the codec %s", r.Codec)
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
