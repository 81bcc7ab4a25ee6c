package e2e

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"google.golang.org/protobuf/proto"

	"github.com/fanoutd/fanoutd/internal/object"

	storagev1 "github.com/fanoutd/fanoutd/gen/fanout/storage/v1"
)

// envelopeMagic begins the values that the object codec stores. The tests repeat it, and
// decode envelopes with the generated code instead of the product's own, because other
// programs rely on the format in etcd.
var envelopeMagic = []byte{0x00, 'f', 'o', 0x01}

// encodeEnvelope returns the stored form of an object.
func encodeEnvelope(contentType string, labels map[string]string, value []byte) ([]byte, error) {
	envelope, err := proto.Marshal(&storagev1.Envelope{ContentType: contentType, Labels: labels, Value: value})
	if err != nil {
		return nil, err
	}
	return append(bytes.Clone(envelopeMagic), envelope...), nil
}

// decodeEnvelope sets the fields of an object from its stored value.
func decodeEnvelope(o *object.Decoded, stored []byte) error {
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
