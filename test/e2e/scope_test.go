package e2e

import (
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/internal/object"
)

// scopeOf converts the scope of a request.
func scopeOf(s *fanoutv1.Scope) (object.Scope, error) {
	switch s := s.GetScope().(type) {
	case *fanoutv1.Scope_Prefix:
		return object.ParsePrefix(s.Prefix)
	case *fanoutv1.Scope_Key:
		return object.ParseKeyScope(s.Key)
	}
	return object.Scope{}, nil
}
