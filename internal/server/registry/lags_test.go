package registry

import "testing"

// The lags of very many watchers take bounded memory. Those of the latest watchers are known.
func TestLagsAreBounded(t *testing.T) {
	lags := Lags{}
	for i := range 10 * maxLags {
		lags.note(i, Lagging{Known: true})
		if len(lags) > maxLags || !lags[i].Known {
			t.Fatalf("got %d lags after %d, want at most %d with the latest", len(lags), i, maxLags)
		}
	}
	lags = Lags{}
	if lags.note(nil, Lagging{}); len(lags) > 0 {
		t.Error("the lag of a watch that shares no watcher is kept")
	}
	Lags(nil).note(1, Lagging{})
}
