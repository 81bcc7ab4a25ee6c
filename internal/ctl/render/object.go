package render

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/fanoutd/fanoutd/client"
)

// Object is an object as templates see it, with the members of [client.Object]:
// Key, ContentType, Labels, CreateRevision, ModRevision and Version.
type Object struct{ *client.Object }

// Name is the last part of the key.
func (o Object) Name() string { return path.Base(o.Key) }

// Text is the value as text.
func (o Object) Text() string { return string(o.Object.Value) }

// JSON is the value as JSON: texts, numbers, booleans, lists and maps.
func (o Object) JSON() (any, error) {
	v, err := fromJSON(string(o.Object.Value))
	if err != nil {
		return nil, fmt.Errorf("the value of %q: %w", o.Key, err)
	}
	return v, nil
}

func fromJSON(text string) (any, error) {
	var v any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return nil, fmt.Errorf("is no JSON: %w", err)
	}
	return number(v), nil
}

// number makes whole numbers of those that are, so that they are not shown as
// 1e+06.
func number(v any) any {
	const exact = 1 << 53
	switch v := v.(type) {
	case float64:
		if v == float64(int64(v)) && v < exact && v > -exact {
			return int64(v)
		}
		return v
	case map[string]any:
		for k, child := range v {
			v[k] = number(child)
		}
		return v
	case []any:
		for i, child := range v {
			v[i] = number(child)
		}
		return v
	default:
		return v
	}
}
