package direct

import "github.com/fanoutd/fanoutd/internal/object"

// build makes the object that a record holds.
func (s *Source) build(r *object.Record) *object.Object {
	o, err := object.Build(s.cfg.Codec, r)
	if err != nil && s.opaqueLog.Note(s.log, r, err) {
		s.opaque.Add(1)
	}
	s.cfg.Preencode(o)
	return o
}
