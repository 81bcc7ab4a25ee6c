package etcdlog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/zap"
)

// etcd logs whole requests. Their texts are cut.
func TestLongTextsAreCut(t *testing.T) {
	var out strings.Builder
	log := New(slog.New(slog.NewTextHandler(&out, nil)), nil)
	log.Warn("apply request took too long", zap.String("request", strings.Repeat("ä", 100_000)), zap.String("prefix", "read-only range"))
	for _, want := range []string{"level=WARN", "request=ää", "ää...", `prefix="read-only range"`} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("got %s, want it to contain %s", &out, want)
		}
	}
	if out.Len() > 1000 {
		t.Errorf("got a line of %d bytes, want at most 1,000", out.Len())
	}
}

// A closed listener is an error unless etcd is being stopped.
func TestListenerErrorsAreExpectedWhileStopping(t *testing.T) {
	var out strings.Builder
	var stopping atomic.Bool
	log := New(slog.New(slog.NewTextHandler(&out, nil)), &stopping).With(zap.String("a", "b"))
	const message = "setting up serving from embedded etcd failed."
	log.Error(message)
	if !strings.Contains(out.String(), "level=ERROR") {
		t.Errorf("got %s, want an error", &out)
	}
	out.Reset()
	stopping.Store(true)
	log.Error(message)
	if out.Len() > 0 {
		t.Errorf("got %s while etcd stops, want nothing", &out)
	}
	if log.Error("another one"); out.Len() == 0 {
		t.Error("another error is not logged while etcd stops")
	}
}

// A client that gives up while etcd reads for it causes no error.
func TestAbandonedReadsAreNoErrors(t *testing.T) {
	var out strings.Builder
	log := New(slog.New(slog.NewTextHandler(&out, nil)), nil)
	for _, reason := range []error{context.Canceled, context.DeadlineExceeded} {
		log.Error(abandonedRead, zap.Error(fmt.Errorf("applyTxn: failed Range: %w", reason)))
	}
	if out.Len() > 0 {
		t.Errorf("got %s, want nothing", &out)
	}
	if log.Error(abandonedRead, zap.Error(errors.New("disk"))); !strings.Contains(out.String(), "level=ERROR") {
		t.Errorf("got %q for another reason, want an error", &out)
	}
}

// etcd writes some warnings for every request. Few of them are logged, and the next line says
// how many were left out. Other messages are logged all the same.
func TestRepeatedWarningsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		log := New(slog.New(slog.NewTextHandler(&out, nil)), nil)
		for range 1000 {
			log.Warn("apply request took too long")
		}
		log.Warn("another one")
		if n := strings.Count(out.String(), "apply request took too long"); n != repeatedLines {
			t.Errorf("got %d lines of a message that is repeated 1,000 times, want %d", n, repeatedLines)
		}
		if !strings.Contains(out.String(), "another one") {
			t.Error("another message is not logged")
		}
		out.Reset()
		time.Sleep(repeatInterval)
		log.Warn("apply request took too long")
		if want := "left_out=997"; !strings.Contains(out.String(), want) {
			t.Errorf("got %q, want %s", out.String(), want)
		}
		out.Reset()
		log.Warn("apply request took too long")
		if strings.Contains(out.String(), "left_out") {
			t.Errorf("got %q, want no left_out", out.String())
		}
	})
}

// Lines about which an operator can do nothing are debug lines: about errors that etcd's client also
// returns, and about states that every start passes through.
func TestLinesWithoutNewsAreDebugLines(t *testing.T) {
	noTerm := zap.Error(errors.New("cannot detect storage schema version: missing term information"))
	for _, c := range []struct {
		message string
		field   zap.Field
		want    bool // it is logged
	}{
		{"retrying of unary invoker failed", zap.Error(errors.New("unavailable")), false},
		{"retrying of unary invoker failed to fetch new auth token", zap.Error(errors.New("wrong password")), true},
		{"streamer failed to create ClientStream", zap.Error(errors.New("unavailable")), false},
		{"retrying RecvMsg", zap.Error(errors.New("unavailable")), false},
		{"Failed to detect schema version", noTerm, false},
		{"failed to update storage version", noTerm, false},
		{"failed to update storage version", zap.Error(errors.New("another reason")), true},
		{"failed to update storage version", zap.String("cluster-version", "3.7"), true},
		{"8d561e655a90ddd2 cannot campaign at term 2 since there are still pending configuration changes to apply", zap.Skip(), false},
		{"simple token is not cryptographically signed", zap.Skip(), false},
		{"another message", zap.Skip(), true},
	} {
		var info, debug strings.Builder
		New(slog.New(slog.NewTextHandler(&info, nil)), nil).Error(c.message, c.field)
		if got := info.Len() > 0; got != c.want {
			t.Errorf("%s: got %q", c.message, &info)
		}
		New(slog.New(slog.NewTextHandler(&debug, &slog.HandlerOptions{Level: slog.LevelDebug})), nil).Error(c.message, c.field)
		if level := "level=DEBUG"; debug.Len() == 0 || strings.Contains(debug.String(), level) == c.want {
			t.Errorf("%s: got %q at level debug", c.message, &debug)
		}
	}
}
