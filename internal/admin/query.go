package admin

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/grpc-ecosystem/grpc-gateway/v2/utilities"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// parameters parses the query parameters of a request. The gateway's own parser ignores
// unknown parameters, so a mistyped condition would make a delete unconditional. A nested
// field, such as scope.prefix, may be given by its last name if that is unambiguous.
type parameters struct{ plain runtime.DefaultQueryParser }

// The gateway has one parser for the whole process. Other users of the gateway, such as
// etcd, are not affected: parameters changes only requests of our own protocol.
func init() { runtime.NewServeMux(runtime.SetQueryParameterParser(&parameters{})) }

// protocol is the protobuf package of our requests.
const protocol = "fanout.v1"

// Parse implements runtime.QueryParameterParser.
func (p *parameters) Parse(msg proto.Message, values url.Values, filter *utilities.DoubleArray) error {
	request := msg.ProtoReflect().Descriptor()
	if request.ParentFile().Package() != protocol {
		return p.plain.Parse(msg, values, filter)
	}
	full := url.Values{}
	var flags []fieldPath
	for name, v := range values {
		field, index := splitIndex(name)
		path, err := resolve(request, field)
		if err == nil && path.last().IsMap() != (index != "") {
			err = fmt.Errorf("unknown parameter %q", name)
		}
		switch key := strings.Join(path.names(), ".") + index; {
		case err != nil:
			return err
		case key == "put.text", key == "put.data", key == "put.content_type":
			return fmt.Errorf("unknown parameter %q: the body is the value, and its type is in the header Content-Type", name)
		case filter.HasCommonPrefix(path.names()):
			return fmt.Errorf("the parameter %q is a part of the path", name)
		case !utf8.ValidString(v[0]), !utf8.ValidString(index):
			return fmt.Errorf("the parameter %q is not UTF-8", name)
		case len(v) > 1 || full.Has(key):
			return fmt.Errorf("the parameter %q is given twice", name)
		case !isFlag(path.last()):
			full[key] = v
		case v[0] == "true":
			flags = append(flags, path)
		case v[0] != "false":
			return fmt.Errorf("the parameter %q must be true or false", name)
		}
	}
	if f := request.Fields().ByName(jsonValuesField); f != nil {
		msg.ProtoReflect().Set(f, protoreflect.ValueOfBool(true)) // unless it is a parameter
	}
	if err := p.plain.Parse(msg, full, filter); err != nil {
		return err
	}
	for _, path := range flags {
		if err := setFlag(msg.ProtoReflect(), path); err != nil {
			return err
		}
	}
	return nil
}

// takeParameter removes a query parameter that the gateway does not know, and returns its value;
// nil if it is absent.
func takeParameter(r *http.Request, names ...string) (value *string, err error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, nil // the gateway reports it
	}
	for _, name := range names {
		values := query[name]
		if len(values) > 1 || len(values) == 1 && value != nil {
			return nil, fmt.Errorf("the parameter %q is given twice", name)
		}
		if len(values) == 1 {
			value = &values[0]
			delete(query, name)
		}
	}
	if value != nil {
		r.URL.RawQuery = query.Encode()
	}
	return value, nil
}

// splitIndex splits the index of a map from a name: labels[app] is the value of the label app.
// The index includes its brackets.
func splitIndex(name string) (field, index string) {
	if i := strings.IndexByte(name, '['); i >= 0 && strings.HasSuffix(name, "]") {
		return name[:i], name[i:]
	}
	return name, ""
}

// isFlag reports whether a field is a message without fields, such as from_now. Over
// HTTP it is written as true.
func isFlag(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && !f.IsMap() && f.Message().ParentFile().Package() == protocol && f.Message().Fields().Len() == 0
}

// fieldPath is the path of a field within a request.
type fieldPath []protoreflect.FieldDescriptor

func (p fieldPath) last() protoreflect.FieldDescriptor { return p[len(p)-1] }

func (p fieldPath) names() (names []string) {
	for _, f := range p {
		names = append(names, string(f.Name()))
	}
	return names
}

// setFlag sets the flag at a path. It fails if another member of its oneof is set.
func setFlag(msg protoreflect.Message, path fieldPath) error {
	for _, f := range path {
		if group := f.ContainingOneof(); group != nil {
			if other := msg.WhichOneof(group); other != nil {
				return fmt.Errorf("the parameters %q and %q exclude each other", other.Name(), f.Name())
			}
		}
		msg = msg.Mutable(f).Message()
	}
	return nil
}

// resolve returns the path of the field that a parameter names.
func resolve(request protoreflect.MessageDescriptor, name string) (fieldPath, error) {
	if path := lookUp(request, strings.Split(name, ".")); path != nil {
		return path, nil
	}
	var found fieldPath
	for i := range request.Fields().Len() {
		f := request.Fields().Get(i)
		if !isGroup(f) {
			continue
		}
		if path := lookUp(f.Message(), []string{name}); path != nil {
			if found != nil {
				return nil, fmt.Errorf("the parameter %q may mean %s or %s.%s", name, strings.Join(found.names(), "."), f.Name(), path[0].Name())
			}
			found = append(fieldPath{f}, path...)
		}
	}
	if found == nil {
		return nil, fmt.Errorf("unknown parameter %q", name)
	}
	return found, nil
}

// lookUp returns the field path for names, which may be protobuf or JSON names, or nil if
// there is no such field.
func lookUp(in protoreflect.MessageDescriptor, names []string) fieldPath {
	var path fieldPath
	for i, name := range names {
		f := in.Fields().ByName(protoreflect.Name(name))
		if f == nil {
			f = in.Fields().ByJSONName(name)
		}
		last := i == len(names)-1
		if f == nil || last == isGroup(f) {
			return nil
		}
		path = append(path, f)
		in = f.Message()
	}
	return path
}

// isGroup reports whether a field has fields of its own. A duration is a single value.
func isGroup(f protoreflect.FieldDescriptor) bool {
	return f.Message() != nil && !f.IsMap() && f.Message().ParentFile().Package() == protocol && !isFlag(f)
}
