package store

import (
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"

	"go.uber.org/zap"
)

// What etcd says about a request is as long as the request.
func TestLongTextsOfEtcdAreCut(t *testing.T) {
	var said strings.Builder
	log := zapLogger(slog.New(slog.NewTextHandler(&said, nil)), new(atomic.Bool))
	log.Warn("apply request took too long", zap.String("request", strings.Repeat("ä", 100_000)), zap.String("prefix", "read-only range"))
	for _, want := range []string{"level=WARN", "request=ää", "ää...", `prefix="read-only range"`} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("there is no %s in %s", want, &said)
		}
	}
	if said.Len() > 1000 {
		t.Errorf("a line of %d bytes", said.Len())
	}
}

// That etcd cannot listen is an error, unless it is because it stops.
func TestOnlyWhoStopsNeedNotListen(t *testing.T) {
	var said strings.Builder
	var stopping atomic.Bool
	log := zapLogger(slog.New(slog.NewTextHandler(&said, nil)), &stopping).With(zap.String("a", "b"))
	const message = "setting up serving from embedded etcd failed."
	log.Error(message)
	if !strings.Contains(said.String(), "level=ERROR") {
		t.Errorf("it is not said: %s", &said)
	}
	said.Reset()
	stopping.Store(true)
	log.Error(message)
	if said.Len() > 0 {
		t.Errorf("it is said while etcd stops: %s", &said)
	}
	if log.Error("another one"); said.Len() == 0 {
		t.Error("another one is not said while etcd stops")
	}
}
