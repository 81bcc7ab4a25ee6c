package rpc

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	fanoutv1 "github.com/fanoutd/fanoutd/gen/fanout/v1"
	"github.com/fanoutd/fanoutd/test/logs"
)

// All slow requests are counted, but only some of a flood are logged. The next line says how many were left out.
func TestSlowRequestsDoNotFloodTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var written logs.Buffer
		slow := NewSlowLog(time.Second, slog.New(slog.NewTextHandler(&written, nil)))
		flood := func(requests int) {
			for range requests {
				slow.Note(t.Context(), "request", time.Minute, &fanoutv1.GetRequest{})
			}
		}
		flood(1000)
		if got := strings.Count(written.String(), "msg=slow"); got != slowLinesAtOnce {
			t.Errorf("got %d lines, want %d", got, slowLinesAtOnce)
		}
		time.Sleep(2 * time.Second)
		flood(1000)
		if got, want := strings.Count(written.String(), "msg=slow"), slowLinesAtOnce+2*slowLinesPerSecond; got != want {
			t.Errorf("got %d lines two seconds later, want %d", got, want)
		}
		if want := "left_out=950"; !strings.Contains(written.String(), want) {
			t.Errorf("no line has %s", want)
		}
		if got := slow.Count(); got != 2000 {
			t.Errorf("got %d slow requests, want 2000", got)
		}
	})
}
