package e2e

import (
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/status"
)

// reasonOf returns the reason in an error of fanoutd, or "" for other errors.
func reasonOf(err error) string { return infoOf(err).GetReason() }

// infoOf returns the ErrorInfo of an error, or nil.
func infoOf(err error) *errdetails.ErrorInfo {
	for _, detail := range status.Convert(err).Details() {
		if info, ok := detail.(*errdetails.ErrorInfo); ok && info.GetDomain() == "fanoutd.github.io" {
			return info
		}
	}
	return nil
}
