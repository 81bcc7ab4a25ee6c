package store

import (
	"log/slog"
	"strings"
	"testing"

	"go.uber.org/zap"
)

// What etcd says about a request is as long as the request.
func TestLongTextsOfEtcdAreCut(t *testing.T) {
	var said strings.Builder
	log := zapLogger(slog.New(slog.NewTextHandler(&said, nil)))
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
