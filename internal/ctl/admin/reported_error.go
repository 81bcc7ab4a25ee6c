package admin

import (
	"cmp"
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// ReportedError is an error that a subscriber has reported.
type ReportedError struct {
	Code    string `json:"code"`
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message"`
}

func reportOf(e *client.Error) *ReportedError {
	if e == nil {
		return nil
	}
	return &ReportedError{e.Code.String(), string(e.Reason), e.Message}
}

// String returns the message, and the reason or code.
func (r *ReportedError) String() string {
	return strings.TrimSpace(r.Message + " (" + cmp.Or(r.Reason, r.Code) + ")")
}
