package wire

import "github.com/fanoutd/fanoutd/internal/object"

// InForm returns an object as a projection shows it, encoded. That is usually the object itself.
func InForm(o *object.Object, p object.Projection) *object.Object {
	if p.JSON == nil || p.OmitValues || o == nil {
		return o
	}
	form, ok := p.JSON.InJSON(Decode(o))
	if !ok {
		return o
	}
	return Preencode(form)
}
