package admin

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
)

// openAPI is the document as generated from the protocol.
//
//go:embed openapi/fanout.swagger.json
var openAPI []byte

var inBraces = regexp.MustCompile(`\{([^}]*)\}`)

// describe completes the generated document. There, the operations of one path name its
// parameters differently, such as {put.key} and {key}, which OpenAPI does not allow.
// describe merges them into one path with one name.
func describe(generated []byte) ([]byte, error) {
	var document struct {
		Swagger     string                               `json:"swagger"`
		Info        map[string]string                    `json:"info"`
		Tags        json.RawMessage                      `json:"tags"`
		Consumes    []string                             `json:"consumes"`
		Produces    []string                             `json:"produces"`
		Paths       map[string]map[string]map[string]any `json:"paths"`
		Definitions json.RawMessage                      `json:"definitions"`
	}
	if err := json.Unmarshal(generated, &document); err != nil {
		return nil, err
	}
	document.Info = map[string]string{
		"title": "fanoutd", "version": "v1",
		"description": "List and Watch for data in etcd. Keys in paths may contain slashes, plain or as %2F.",
	}
	paths := map[string]map[string]map[string]any{}
	for _, path := range slices.Sorted(maps.Keys(document.Paths)) {
		plain := inBraces.ReplaceAllStringFunc(path, func(part string) string { return "{" + plainName(part[1:len(part)-1]) + "}" })
		if paths[plain] == nil {
			paths[plain] = map[string]map[string]any{}
		}
		for method, operation := range document.Paths[path] {
			if paths[plain][method] != nil {
				return nil, fmt.Errorf("duplicate operation %s %s", method, plain)
			}
			parameters, _ := operation["parameters"].([]any) // a method may have none
			for _, p := range parameters {
				if p := p.(map[string]any); p["in"] == "path" {
					p["name"] = plainName(p["name"].(string))
				}
			}
			if method != "post" { // which has a body
				operation["parameters"] = append(parameters, flagParameters(operation["operationId"].(string))...)
			}
			paths[plain][method] = operation
		}
	}
	at := func(method, pattern string) map[string]any {
		return paths[strings.NewReplacer("=**}", "}", "=*}", "}").Replace(pattern)][method]
	}
	for pattern, method := range map[string]string{watchPath: "get", appliedPath: "get", subscribePath: "post"} {
		at(method, pattern)["produces"] = []string{streamType, eventStreamType}
	}
	at("get", objectPath)["produces"] = []string{"application/json", "*/*"}
	at("put", objectPath)["consumes"] = []string{"*/*"}
	addParameters(at("get", watchPath),
		parameter("query", "lastEventId", "string", "The id of the last event of a stream of server-sent events: the watch continues after it."),
		parameter("header", lastEventHeader, "string", "The same, as browsers send it. It overrides the parameter."))
	addParameters(at("get", objectPath),
		parameter("query", "raw", "boolean", "Return the value itself, with its content type, and with its mod_revision as entity tag."))
	addParameters(at("put", objectPath),
		map[string]any{"in": "body", "name": "value", "description": "The value. Its content type is that of the body.", "schema": map[string]any{"type": "string", "format": "binary"}},
		parameter("header", "If-Match", "string", "The same as ifModRevision, in quotes."),
		parameter("header", "If-None-Match", "string", "*: the same as ifModRevision=0."),
		parameter("header", messageHeader, "string", "The same as message."))
	addParameters(at("delete", objectPath),
		parameter("header", "If-Match", "string", "The same as ifModRevision, in quotes."),
		parameter("header", messageHeader, "string", "The same as message."))
	paths[rightsPath] = map[string]map[string]any{"get": describedRights()}
	document.Paths = paths
	return json.MarshalIndent(document, "", "  ")
}

// addParameters adds parameters that the protocol does not have, and removes those that are in the
// body.
func addParameters(operation map[string]any, more ...map[string]any) {
	all := slices.DeleteFunc(operation["parameters"].([]any), func(p any) bool {
		name := p.(map[string]any)["name"]
		return name == "put.text" || name == "put.data" || name == "put.contentType"
	})
	for _, p := range more {
		all = append(all, p)
	}
	operation["parameters"] = all
}

func parameter(in, name, kind, description string) map[string]any {
	return map[string]any{"in": in, "name": name, "type": kind, "required": false, "description": description}
}

// describedRights describes rightsPath, which the protocol does not have.
func describedRights() map[string]any {
	resource := parameter("query", "resource", "string", "The name of a resource, or * for the rights to all resources.")
	resource["required"] = true
	verbs := map[string]any{"type": "array", "items": map[string]any{"type": "string"}}
	answer := func(description string, schema map[string]any) map[string]any {
		return map[string]any{"description": description, "schema": schema}
	}
	return map[string]any{
		"summary":     "What the caller may do with an object, or with a whole resource, as verbs of the policy.",
		"operationId": "Rights",
		"parameters":  []any{resource, parameter("query", "key", "string", "The key of the object. Default: the whole resource.")},
		"responses": map[string]any{
			"200":     answer("The verbs.", map[string]any{"type": "object", "properties": map[string]any{"rights": verbs}}),
			"default": answer("An error.", map[string]any{"$ref": "#/definitions/Status"}),
		},
	}
}

// flagParameters returns the query parameters that the generator leaves out: messages
// without fields, see [isFlag].
func flagParameters(operationID string) []any {
	service, method, _ := strings.Cut(operationID, "_")
	found, err := protoregistry.GlobalFiles.FindDescriptorByName(protoreflect.FullName(protocol + "." + service + "." + method))
	if err != nil {
		return nil
	}
	var parameters []any
	var walk func(in protoreflect.MessageDescriptor, prefix string)
	walk = func(in protoreflect.MessageDescriptor, prefix string) {
		for i := range in.Fields().Len() {
			f := in.Fields().Get(i)
			switch {
			case f.IsList(), f.IsMap():
			case isFlag(f):
				parameters = append(parameters, map[string]any{
					"name": prefix + f.JSONName(), "in": "query", "required": false, "type": "boolean",
				})
			case isGroup(f):
				walk(f.Message(), prefix+f.JSONName()+".")
			}
		}
	}
	walk(found.(protoreflect.MethodDescriptor).Input(), "")
	return parameters
}

// plainName returns the last name of a field path.
func plainName(path string) string { return path[strings.LastIndexByte(path, '.')+1:] }
