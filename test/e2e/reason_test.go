package e2e

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// reasonOf returns the reason that fanoutd gave for an error, or nothing if it is
// none of fanoutd's.
func reasonOf(err error) string { return infoOf(err).GetReason() }

// infoOf returns what fanoutd says about an error, or nil.
func infoOf(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "fanoutd.github.io" {
			return info
		}
	}
	return nil
}
