package admin

import (
	"cmp"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// Report is the error that a subscriber has reported.
type Report struct {
	Code    string `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

func reportOf(e *client.Error) *Report {
	if e == nil {
		return nil
	}
	return &Report{e.Code.String(), string(e.Reason), e.Message}
}

// String returns the message, and the reason or code.
func (r *Report) String() string {
	return strings.TrimSpace(r.Message + " (" + cmp.Or(r.Reason, r.Code) + ")")
}
