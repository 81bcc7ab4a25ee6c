package registry

import (
	"testing"
	"time"
)

// Each watch counts once by its applied lag: with the first bound that its lag does not exceed.
func TestWatchesAreCountedByAppliedLag(t *testing.T) {
	var s AppliedStats
	s.add(ReportSample{Failing: true})
	s.add(ReportSample{Reported: true, Failing: true})
	for _, lag := range []time.Duration{
		0, 1, time.Second, time.Second + 1, 10 * time.Second, time.Minute, time.Minute + 1, 10 * time.Minute, 30 * time.Minute, time.Hour, time.Hour + 1,
	} {
		s.add(ReportSample{Reported: true, LagKnown: true, Lag: lag})
	}
	want := AppliedStats{ByLag: [...]int{1, 2, 2, 1, 2, 2, 1}, UnknownLag: 1, Unreported: 1, Failing: 2}
	if s != want {
		t.Errorf("got %+v, want %+v", s, want)
	}
}
