package server_test

import (
	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
)

func exactRevision(r int64) *fanoutv1.ReadConsistency {
	return &fanoutv1.ReadConsistency{Level: &fanoutv1.ReadConsistency_ExactRevision{ExactRevision: r}}
}
