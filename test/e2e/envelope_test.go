package e2e

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/object"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
)

// envelopeMagic begins what the codec "object" stores. It is written down here
// again, as is the generated code used instead of the product's own: what is in
// etcd is a format that other programs rely on.
var envelopeMagic = []byte{0x00, 'f', 'o', 0x01}

// seal returns the stored form of an object.
func seal(contentType string, labels map[string]string, value []byte) ([]byte, error) {
	envelope, err := proto.Marshal(&storagev1.Envelope{ContentType: contentType, Labels: labels, Value: value})
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(envelopeMagic), envelope...), nil
}

// unseal fills in what a stored value says about an object.
func unseal(o *object.Object, stored []byte) error {
	message, sealed := bytes.CutPrefix(stored, envelopeMagic)
	if !sealed {
		o.Opaque = true
		o.Value, o.ContentType = stored, "application/octet-stream"
		if utf8.Valid(stored) {
			o.ContentType = "text/plain; charset=utf-8"
		}
		return nil
	}
	var envelope storagev1.Envelope
	if err := proto.Unmarshal(message, &envelope); err != nil {
		return fmt.Errorf("envelope of %q: %w", o.Key, err)
	}
	o.Value, o.ContentType, o.Labels = envelope.GetValue(), envelope.GetContentType(), envelope.GetLabels()
	return nil
}
