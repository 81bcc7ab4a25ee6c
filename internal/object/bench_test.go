package object_test

import (
	"testing"

	"github.com/fanoutd/fanoutd/internal/object"
)

// The server decodes each change once, and each object once at start.
func BenchmarkDecode(b *testing.B) {
	const route = `{"metadata": {"labels": {"env": "prod", "team": "shop"}}, "region": "eu", "replicas": 3, "enabled": true,
		"backend": {"hostName": "a.example.org", "port": 8080}, "hosts": ["a", "b", "c"], "annotations": {"a": "1", "b": "2"}}`
	paths := []string{"region", "replicas", "backend.hostName"}
	var fields []object.Field
	for _, path := range paths {
		fields = append(fields, object.Field{Name: path, Path: path})
	}
	messages := routes(b, "", paths...)
	for _, bc := range []struct {
		name   string
		codec  object.Codec
		stored []byte
	}{
		{"json", schemaCodec(b, "json", object.Schema{Fields: fields}), []byte(route)},
		{"protobuf", messages, stored(b, messages, route)},
	} {
		b.Run(bc.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(bc.stored)))
			for b.Loop() {
				if _, err := bc.codec.Decode(bc.stored); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
