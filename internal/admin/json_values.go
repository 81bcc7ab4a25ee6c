package admin

import (
	"encoding/json"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

// Over HTTP, everything is JSON. So a request gets values in their JSON form unless it sets this
// field to false.
const jsonValuesField = "json_values"

// jsonValues is the field in the JSON form of a request, which may have either name.
type jsonValues struct {
	Camel *bool `json:"jsonValues"`
	Snake *bool `json:"json_values"`
}

func (v jsonValues) wanted() bool {
	for _, given := range []*bool{v.Camel, v.Snake} {
		if given != nil {
			return *given
		}
	}
	return true
}

// preferJSON sets the field in a request that was decoded from a text, unless the text has it.
func preferJSON(request any, text []byte) error {
	switch request := request.(type) {
	case *fanoutv1.TransactRequest:
		var given jsonValues
		if err := json.Unmarshal(text, &given); err != nil {
			return err
		}
		request.JsonValues = given.wanted()
	case *fanoutv1.SubscribeRequest:
		var given struct {
			Start struct{ Request jsonValues }
		}
		if err := json.Unmarshal(text, &given); err != nil {
			return err
		}
		if watch := request.GetStart().GetRequest(); watch != nil {
			watch.JsonValues = given.Start.Request.wanted()
		}
	}
	return nil
}
