package app

import (
	"context"
	"fmt"

	"github.com/fanoutd/fanoutd/internal/config"
	"github.com/fanoutd/fanoutd/internal/crypt"
	"github.com/fanoutd/fanoutd/internal/object"
)

// The sample of a resource: its first values. Each page may have a few MiB.
const (
	sampleSize = 256
	samplePage = 64
)

// sample has what the values of a resource say about its codec.
type sample struct {
	codec      object.Codec
	candidates []object.Codec // can decode all values that codec cannot

	values     int
	opaque     int
	first      object.Key // of the opaque values
	firstError error
	more       bool // the resource has more values
}

// takeSample reads the first values of a resource.
func takeSample(ctx context.Context, c Collection, r *config.Resource) (*sample, error) {
	schema, err := r.Schema()
	if err != nil {
		return nil, err
	}
	s := &sample{}
	if s.codec, err = object.NewCodec(r.Codec, schema); err != nil {
		return nil, err
	}
	for _, name := range object.CodecNames() {
		// Only a resource of the codec protobuf has the type of its messages.
		if other, err := object.NewCodec(name, schema); err == nil && name != r.Codec {
			s.candidates = append(s.candidates, other)
		}
	}
	start := object.Key("")
	for s.more = true; s.more && s.values < sampleSize; {
		var records []object.Record
		if records, s.more, err = c.List(ctx, 0, object.Scope{}, start, min(samplePage, sampleSize-s.values)); err != nil {
			return nil, err
		}
		for i := range records {
			s.add(&records[i])
			start = records[i].Key + "\x00"
		}
	}
	return s, nil
}

func (s *sample) add(r *object.Record) {
	s.values++
	o, err := object.Build(s.codec, r)
	if !o.Opaque {
		return
	}
	if s.opaque++; s.opaque == 1 {
		s.first, s.firstError = r.Key, err
	}
	var able []object.Codec
	for _, c := range s.candidates {
		if o, _ := object.Build(c, r); !o.Opaque {
			able = append(able, c)
		}
	}
	s.candidates = able
}

// warning says which values the codec cannot decode, and what could. It is empty if there are none.
func (s *sample) warning(r *config.Resource) string {
	if s.opaque == 0 {
		return ""
	}
	of := fmt.Sprintf("%d values", s.values)
	if s.more {
		of = fmt.Sprintf("the first %d values", s.values)
	}
	text := fmt.Sprintf("resource %s (prefix %s): %d of %s cannot be decoded with codec %q, such as that of %q (%v)", r.Name, r.Prefix, s.opaque, of, r.Codec, s.first, s.firstError)
	if len(s.candidates) == 0 {
		return text
	}
	// Every value is one of the codec raw. So that is the best answer only if it is the only one.
	best := s.candidates[0].Name()
	if best == "raw" && len(s.candidates) > 1 {
		best = s.candidates[1].Name()
	}
	return fmt.Sprintf("%s; the codec %q can decode them", text, best)
}

// sampleValues reads the first values of each resource, and returns warnings about resources whose
// values do not fit their codec, or cannot be decrypted.
func sampleValues(ctx context.Context, s Store, cfg config.Config, keys *crypt.Keyring) ([]string, error) {
	var warnings []string
	for _, r := range cfg.Resources {
		found, err := takeSample(ctx, s.Collection(r.Name, r.Prefix, keys.Values(cfg.Encrypts(&r))), &r)
		if err != nil {
			if ctx.Err() != nil {
				err = fmt.Errorf("no answer in time: %w", err)
			}
			return nil, fmt.Errorf("cannot read resource %s (prefix %s) from etcd at %v: %w", r.Name, r.Prefix, cfg.EtcdEndpoints, err)
		}
		if warning := found.warning(&r); warning != "" {
			warnings = append(warnings, warning)
		}
	}
	return warnings, nil
}
