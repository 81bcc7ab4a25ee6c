package admin

import (
	"strings"

	"github.com/fanoutd/fanoutd/client"
)

// ReportedError is an error that a subscriber has reported.
type ReportedError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

func reportedErrorOf(e *client.Error) *ReportedError {
	if e == nil {
		return nil
	}
	return &ReportedError{e.Code.String(), e.Message}
}

// String returns the message and the code, or "-" if there is no error.
func (r *ReportedError) String() string {
	if r == nil {
		return "-"
	}
	if r.Message != "" && r.Code == "Unknown" { // which adds nothing
		return r.Message
	}
	return strings.TrimSpace(r.Message + " (" + r.Code + ")")
}
